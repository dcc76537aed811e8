"""Hosts to measure on, out of this machine: an sshd each, on a port of its own, at the end of a line that may be long.

    with hosts(2, round_trip_ms=5) as (workers, more):
        subprocess.run([qjam, "bench", ..., "--workers", workers], env={**os.environ, **more})

Nothing here needs rights: sshd runs as whoever runs this, with keys that are made for it, lets in nobody else, listens on
127.0.0.1 alone, and has another home folder. A long line is a program that passes on what comes through it a while
later, each way half of the round trip, in order and without losing or slowing anything; so what is measured is waiting, and
what ssh itself costs, and not the width of a network. Processor time of sshd and ssh is taken from the same cores.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import getpass
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Optional

SSHD_PLACES = ["/usr/sbin/sshd", "/usr/local/sbin/sshd", "/usr/lib/ssh/sshd"]
# What is read from a socket at once.
PIECE = 1 << 18
# So much may be under way in one direction.
UNDER_WAY = 1 << 26


def dies_with_us() -> None:
    """For a new process: the kernel ends it when whoever started it is gone, however that came."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def sshd() -> Optional[str]:
    """The server's path, which must be absolute."""
    found = shutil.which("sshd")
    return next((place for place in [found, *SSHD_PLACES] if place and Path(place).exists()), None)


@contextlib.contextmanager
def hosts(count: int, round_trip_ms: float = 0.0) -> Iterator[tuple[str, dict[str, str]]]:
    """So many hosts of one slot each: the worker string, and what the environment must say for it to be understood."""
    server = sshd()
    if server is None:
        raise FileNotFoundError("there is no sshd; on Debian: apt install openssh-server")
    if os.getuid() == 0:
        # Where it runs as root it wants an empty folder for those that are not logged in yet.
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    with tempfile.TemporaryDirectory() as made, contextlib.ExitStack() as ends:
        folder = Path(made)
        for name in ["host", "user"]:
            words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(folder / name)]
            subprocess.run(words, check=True)
        names = [f"host{i + 1}" for i in range(count)]
        client = []
        for name in names:
            port = ends.enter_context(served(server, folder, name))
            if round_trip_ms > 0:
                port = ends.enter_context(line(port, round_trip_ms / 2e3))
            client.append(f"Host {name}\n    Port {port}\n")
        config = folder / "ssh_config"
        config.write_text("".join(client) + client_settings(folder))
        yield (
            ",".join(f"{name}*1" for name in names),
            {"QJAM_SSH": f"ssh -F {config}"},
        )


def client_settings(folder: Path) -> str:
    (folder / "known_hosts").write_text(f"qjam-bench {(folder / 'host.pub').read_text()}")
    return f"""Host *
    HostName 127.0.0.1
    User {getpass.getuser()}
    IdentityFile {folder / "user"}
    IdentitiesOnly yes
    UserKnownHostsFile {folder / "known_hosts"}
    HostKeyAlias qjam-bench
    BatchMode yes
    LogLevel ERROR
"""


@contextlib.contextmanager
def served(server: str, folder: Path, name: str) -> Iterator[int]:
    """An sshd: its port."""
    home = folder / name
    home.mkdir(mode=0o700)
    (folder / "keys").write_text((folder / "user.pub").read_text())
    # Another home, so that what is put there is not found by, or in the way of, anything else on this machine.
    command = home / "command"
    command.write_text(
        f'#!/bin/sh\nexport HOME="{home}"\nunset XDG_CACHE_HOME XDG_DATA_HOME XDG_RUNTIME_DIR\ncd "$HOME"\n'
        'exec /bin/sh -c "${SSH_ORIGINAL_COMMAND:-exec /bin/sh}"\n'
    )
    command.chmod(0o700)
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        port: int = asked.getsockname()[1]
    config = home / "sshd_config"
    config.write_text(f"""Port {port}
ListenAddress 127.0.0.1
HostKey {folder / "host"}
PidFile none
AuthorizedKeysFile {folder / "keys"}
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
ForceCommand {command}
""")
    log = home / "log"
    with open(log, "wb") as errors:
        words = [server, "-D", "-e", "-f", str(config)]
        process = subprocess.Popen(words, stderr=errors, preexec_fn=dies_with_us)
    try:
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            if process.poll() is not None:
                raise RuntimeError(f"sshd ended with {process.returncode}: {log.read_text()}")
            time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def line(port: int, one_way_s: float) -> Iterator[int]:
    """A port at the other end of a line to this one, on which everything arrives so much later."""
    words = [sys.executable, __file__, str(port), repr(one_way_s)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, preexec_fn=dies_with_us)
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.terminate()
        process.wait()


def carry(ours: socket.socket, port: int, one_way_s: float) -> None:
    """Carries one connection until one of its ends is gone."""
    theirs = socket.create_connection(("127.0.0.1", port))
    ends = [ours, theirs]
    for end in ends:
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end.setblocking(False)
    waiting: list[collections.deque[tuple[float, bytes]]] = [collections.deque(), collections.deque()]
    held = [0, 0]
    try:
        while True:
            now = time.monotonic()
            readers = [ends[i] for i in (0, 1) if held[i] < UNDER_WAY]
            due = [bool(queue) and queue[0][0] <= now for queue in waiting]
            writers = [ends[1 - i] for i in (0, 1) if due[i]]
            # Whoever is due and finds the other end full is woken by that end; the others by the time.
            later = [queue[0][0] - now for queue, is_due in zip(waiting, due) if queue and not is_due]
            can_read, can_write, _ = select.select(readers, writers, [], min(later, default=None))
            for i in (0, 1):
                if ends[i] in can_read:
                    some = ends[i].recv(PIECE)
                    if not some:
                        return
                    waiting[i].append((time.monotonic() + one_way_s, some))
                    held[i] += len(some)
                if ends[1 - i] in can_write:
                    at, some = waiting[i].popleft()
                    sent = ends[1 - i].send(some)
                    held[i] -= sent
                    if sent < len(some):
                        waiting[i].appendleft((at, some[sent:]))
    except OSError:
        return
    finally:
        ours.close()
        theirs.close()


def main(port: int, one_way_s: float) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        print(server.getsockname()[1], flush=True)
        while True:
            ours, _ = server.accept()
            threading.Thread(target=carry, args=(ours, port, one_way_s), daemon=True).start()


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))

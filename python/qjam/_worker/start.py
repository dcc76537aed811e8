# The first steps of a child interpreter, given to it by `-c`: takes its socket from standard input, and the sources of
# the modules it runs from a file in memory that comes over the socket.
def end_with_slot() -> None:
    import os

    parent = os.getppid()
    try:
        import ctypes

        # PR_SET_PDEATHSIG, SIGKILL
        ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)
    except Exception:
        # An interpreter without ctypes looks for itself.
        import threading
        import time

        def watch() -> None:
            while os.getppid() == parent:
                time.sleep(1)
            os._exit(1)

        threading.Thread(target=watch, daemon=True).start()


def begin() -> None:
    import os
    import socket
    import sys
    import types

    channel = socket.socket(fileno=os.dup(0))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    _, fds, _, _ = socket.recv_fds(channel, 1, 1)
    if not fds:
        return
    with open(fds[0], "rb") as file:
        file.seek(0)
        bundle = file.read()
    parts, at = [], 0
    while at < len(bundle):
        end = at + 8 + int.from_bytes(bundle[at : at + 8], "little")
        parts.append(bundle[at + 8 : end])
        at = end
    support, path, *modules = parts
    package = sys.modules["qjam._worker"] = types.ModuleType("qjam._worker")
    package.__path__ = []
    later = {}
    for name, source in zip(modules[::2], modules[1::2]):
        full = name.decode()
        if full[0] == "?":
            later[full[1:]] = ("<" + full[1:] + ">", False, source.decode())
            continue
        module = sys.modules[full] = types.ModuleType(full)
        if full.startswith("qjam._worker."):
            setattr(package, full[13:], module)
        exec(compile(source, "<" + full + ">", "exec"), module.__dict__)
    sys.meta_path.insert(0, package.loader._Finder(later))
    # User code that imports it finds its own, together with the package it is in.
    del sys.modules["qjam.common.reducing"]
    package.child.start(channel, [part for part in path.decode().split("\0") if part], support)


if __name__ == "__main__":
    end_with_slot()
    begin()

"""A standalone cluster of Spark on this machine: a master, a worker, and executors of one core each, on free ports of the loopback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional

from events import wait_until

#: Set before the first Java process is started.
ENVIRONMENT = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_NO_DAEMONIZE": "1"}


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


class Standalone:
    """Master and worker, each a process of Java."""

    def __init__(self, folder: Path) -> None:
        import pyspark

        self.home = Path(pyspark.__file__).parent
        self.folder = folder
        self.port = free_port()
        self.url = f"spark://127.0.0.1:{self.port}"
        self.running: List[subprocess.Popen[bytes]] = []
        try:
            self._start("master.Master", "--host", "127.0.0.1", "--port", str(self.port), "--webui-port", "0")
            wait_until(self._listens, "that Spark's master listens")
            options = ["--cores", "2", "--memory", "2g", "-d", str(folder / "work"), "--webui-port", "0"]
            self._start("worker.Worker", "--host", "127.0.0.1", *options, self.url)
        except BaseException:
            self.stop()
            raise

    def _start(self, kind: str, *options: str) -> None:
        command = [str(self.home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", *options]
        log = open(self.folder / f"{kind}.log", "wb")
        environment = {**os.environ, **ENVIRONMENT, "SPARK_HOME": str(self.home)}
        self.running.append(subprocess.Popen(command, stdout=log, stderr=log, env=environment))

    def _listens(self) -> bool:
        assert self.running[0].poll() is None, (self.folder / "master.Master.log").read_text()
        with socket.socket() as knocking:
            return knocking.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self) -> None:
        for process in reversed(self.running):
            process.terminate()
        for process in self.running:
            process.wait()


def context(address: str, more: Optional[Dict[str, str]] = None) -> Any:
    """A SparkContext on this machine alone."""
    from pyspark import SparkConf, SparkContext

    os.environ.update(ENVIRONMENT)
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.cores.max": "2",
        **(more or {}),
    }
    conf = SparkConf().setMaster(address).setAppName("qjam-tests").setAll(list(settings.items()))
    made = SparkContext(conf=conf)
    made.setLogLevel("OFF")
    return made


def executors(application: str) -> List[int]:
    """The processes of an application's executors."""
    wanted = [b"--executor-id", application.encode()]
    return [pid for pid, words in _commands() if all(word in words for word in wanted)]


def workers(application_folder: str = "") -> List[int]:
    """The worker processes of qjam beside Spark's Python workers."""
    found = []
    for pid, _ in _commands():
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if any(part.startswith(b"QJAM_SPARK_WORKER=") and application_folder.encode() in part for part in environment):
            found.append(pid)
    return found


def _commands() -> List[Any]:
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                found.append((int(entry), Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")))
            except OSError:
                continue
    return found

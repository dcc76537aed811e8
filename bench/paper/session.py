"""One SparkContext for all variants on Spark: executors of one core, each a process of Java of its own."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Optional

HERE = Path(__file__).resolve().parent
HEAP_MIB = 768


def settings(jar: Optional[Path]) -> dict[str, str]:
    """What is set for a cluster on this machine. Nothing of it is for speed, but that a Python worker is used again."""
    found = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": f"{HEAP_MIB}m",
        "spark.driver.maxResultSize": "0",
        "spark.executor.memory": f"{HEAP_MIB}m",
        "spark.executor.cores": "1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.python.worker.reuse": "true",
    }
    if jar is not None:
        found["spark.jars"] = str(jar)
    return found


@contextmanager
def spark(partitions: int, master: Optional[str], jar: Optional[Path]) -> Iterator[Any]:
    """A context on a cluster of this machine with as many executors as there are partitions, or on the cluster at `master`."""
    try:
        import pyspark
    except ImportError:
        sys.exit(f"the variants on Spark need PySpark: {sys.executable} -m pip install 'pyspark==4.3.*' (or --without spark)")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
    conf = pyspark.SparkConf().setMaster(master or f"local-cluster[{partitions},1,{HEAP_MIB}]").setAppName("qjam-paper")
    context = pyspark.SparkContext(conf=conf.setAll(list(settings(jar).items())))
    try:
        context.setLogLevel("ERROR")
        context.addPyFile(str(HERE / "local_solver.py"))
        yield context
    finally:
        application = context.applicationId
        context.stop()
        # Executors of a cluster in one process work below Spark's own folder, and nobody else removes that.
        shutil.rmtree(Path(os.environ["SPARK_HOME"], "work", application), ignore_errors=True)


def everywhere(context: Any, partitions: int) -> None:
    """Waits until every executor has run a task of ours: starting them is nobody's round."""
    import time

    def visit(_: Any) -> Iterator[int]:
        import local_solver

        time.sleep(0.2)
        yield local_solver.GOLDEN & 1

    for _ in range(50):
        context.parallelize(range(partitions), partitions).mapPartitions(visit).collect()
        if context._jsc.sc().getExecutorMemoryStatus().size() > partitions or context.master.startswith("local["):
            return
    sys.exit(f"Spark has not started {partitions} executors; give it more memory or fewer partitions")

"""Finds or makes the SparkContext of a master, and says in one sentence what is wrong with Spark.

Comes in: what the user passes as ``spark``. Goes out: a context of the classic kind, which runs jobs over partitions; and sentences
for the errors of Spark, whose own texts are pages of Java.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any, Tuple

from ..errors import RemoteWorkerError

__all__ = ["Lost", "Trouble", "context_of", "in_words"]


_JAVA_ENDED = "the Java process of the driver has ended"


class Trouble(Exception):
    """A job has no answers; says why."""

    is_lost = False


class Lost(Trouble):
    """A job has no answers, and another attempt may have some."""

    is_lost = True


def context_of(spark: Any) -> Tuple[Any, bool]:
    """The context, and whether it was made here."""
    if isinstance(spark, str):
        return _made(spark), True
    try:
        from pyspark import SparkContext  # pyright: ignore[reportMissingImports]
    except ImportError:
        SparkContext = None
    context = spark if SparkContext is not None and isinstance(spark, SparkContext) else _of_session(spark)
    if getattr(context, "_jsc", None) is None:
        raise RemoteWorkerError("this SparkContext has been stopped; make a new one, and a Master(spark=...) with that")
    return context, False


def _of_session(spark: Any) -> Any:
    kind = type(spark)
    if kind.__module__.startswith("pyspark.sql.connect"):
        raise RemoteWorkerError(
            "this session is one of Spark Connect, which has no jobs over partitions; use a SparkSession of the driver's own process "
            "(SparkSession.builder.master(...), without remote)"
        )
    if kind.__name__ != "SparkSession" or not kind.__module__.startswith("pyspark"):
        raise TypeError(
            "spark is a SparkContext, a SparkSession, or the address of a cluster such as 'spark://host:7077' or 'local[2]'; "
            f"not {kind.__name__}"
        )
    return spark.sparkContext


def _made(address: str) -> Any:
    try:
        from pyspark import SparkConf, SparkContext  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise RemoteWorkerError(
            f"spark={address!r} needs PySpark, which is not installed for {sys.executable}: pip install pyspark"
        ) from None
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None or not os.access(java, os.X_OK):
        where = f"JAVA_HOME says {home}, where there is none" if home else "there is none on PATH, and JAVA_HOME is not set"
        raise RemoteWorkerError(f"Spark needs Java, and {where}; install one (openjdk-17-jre-headless) or set JAVA_HOME")
    if SparkContext._active_spark_context is not None:
        raise RemoteWorkerError(
            f"spark={address!r} would make a SparkContext, and there is one in this process already; pass that one"
        )
    conf = SparkConf().setMaster(address).setAppName("qjam").set("spark.ui.showConsoleProgress", "false")
    try:
        return SparkContext(conf=conf)
    except Exception as error:
        raise RemoteWorkerError(f"no SparkContext for {address!r}: {_first_line(error)}") from None


def in_words(context: Any, error: BaseException) -> Trouble:
    """The sentence for an exception of a job."""
    said = _said(error)
    if getattr(context, "_jsc", None) is None or "SparkContext was shut down" in said or "stopped SparkContext" in said:
        return Trouble(
            "the SparkContext was stopped while a round was under way or before it began; make a new one, and a Master(spark=...) "
            "with that"
        )
    if said == _JAVA_ENDED or (type(error).__module__.startswith("py4j") and type(error).__name__ == "Py4JNetworkError"):
        return Trouble(f"{_JAVA_ENDED}; make a new SparkContext, and a Master(spark=...) with that")
    if "PYTHON_VERSION_MISMATCH" in said:
        return Trouble(
            f"the Python of the executors has another version than the driver's, {sys.version_info[0]}.{sys.version_info[1]}; set "
            "PYSPARK_PYTHON (spark.pyspark.python) to one of the same version that is on all of them"
        )
    if "Cannot run program" in said:
        return Trouble(
            "an executor has no Python where PYSPARK_PYTHON (spark.pyspark.python) says: " + _line_with(said, "Cannot run program")
        )
    for sign in ("ExecutorLostFailure", "Python worker exited unexpectedly", "Connection reset", "FetchFailed", "failed to connect"):
        if sign in said:
            return Lost(_line_with(said, sign))
    return Trouble("Spark says: " + _first_line(error))


def _said(error: BaseException) -> str:
    """All that an exception says. One of Java is asked over there, where nobody may be any more."""
    try:
        return str(getattr(error, "java_exception", "") or error) + "\n" + str(error)
    except Exception:
        return _JAVA_ENDED


def _line_with(text: str, sign: str) -> str:
    line = next((line for line in text.splitlines() if sign in line), text)
    return line.strip()[:500]


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in _said(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:500]

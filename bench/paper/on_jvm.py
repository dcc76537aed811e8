"""Variants A, B and B*: programs in Scala from `qjam-spark.jar`, which this only starts (`crates/spark-jni/scala/Study.scala`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional

import numpy as np
from problem import Data
from variants import SEED, Round, Run, Variant

TITLES = {"A": "Scala", "B": "Scala, native solver", "B*": "Scala, native, kept in place"}
# The program in Java for a context: what it has cached serves all variants.
_programs: dict[int, Any] = {}


def program(context: Any, data: Data, native: Optional[Path]) -> Any:
    """The program of this context; the library travels by Spark's own means."""
    if id(context) not in _programs:
        if native is not None:
            context.addFile(str(native.resolve()))
        name = "" if native is None else native.name
        java = context._jvm.qjam.spark.Study
        _programs[id(context)] = java(context._jsc, str(data.folder), data.partitions, data.lam, SEED, name)
    return _programs[id(context)]


def variant(context: Any, data: Data, letter: str, native: Optional[Path]) -> Variant:
    """A, B or B*."""

    def run(h: float, most: int, target: float, limit_s: float) -> Run:
        to = data.folder / "coordinates.bin"
        limit = min(limit_s, 1e9)
        lines = program(context, data, native).run(letter, h, most, target, limit, str(to)).splitlines()
        return Run([Round(*map(float, line.split())) for line in lines], h, np.fromfile(to))

    return Variant(letter, TITLES[letter], run)

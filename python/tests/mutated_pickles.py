"""Reads pickles of arrays, tables and the like in which arguments and states were replaced by others, and looks at what was read.

Takes a number of pickles. The process has little memory; whatever ends it is a finding. The last line before that names the seed.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import pickle
import random
import resource
import sys
import warnings
from typing import Any, List, Tuple

import hostile
import numpy as np
import pandas as pd
import pyarrow as pa
import scipy.sparse

import qjam
from qjam import _native
from qjam._reading import Reader, _Unpickler
from qjam._worker import guards

SEED = 7


def values() -> List[Any]:
    """Values of all kinds that have guards."""
    table = pd.DataFrame(
        {"a": [1.0, 2], "b": ["x", "y"], "c": pd.to_datetime(["2020-01-01", "2021-01-01"]), "d": pd.Categorical(["u", "v"])}
    )
    found: List[Any] = [np.zeros((2, 3), kind) for kind in "?bhilqefdgFDG"]
    found += [np.zeros(2, kind) for kind in ("U3", "S4", "V5", "M8[D]", "m8[ns]", "O", ">U2")]
    found += [
        np.zeros(2, [("a", "f4"), ("b", "i8", (2,)), ("c", "U3"), ("d", "O")]),
        np.rec.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
    ]
    masks: List[Any] = [[0, 1], [(0, 1)]]
    found += [np.ma.array([1.0, 2], mask=masks[0]), np.ma.array([(1, 2.0)], mask=masks[1], dtype=[("a", "i4"), ("b", "f8")])]
    found += [np.float32(1), np.datetime64("2020-01-01"), np.zeros(1, [("a", "f4"), ("b", "O")])[0]]
    for bits in (np.random.PCG64, np.random.MT19937, np.random.Philox, np.random.SFC64):
        found += [np.random.Generator(bits(7)), bits(7)]
    found += [np.random.RandomState(7), np.random.SeedSequence(7)]
    for kind in ("bsr", "coo", "csc", "csr", "dia", "lil"):
        found.append(getattr(scipy.sparse, kind + "_matrix")(np.eye(4)))
    found += [table, table["b"], table.set_index(["a", "b"]), table["d"], pd.date_range("2020", periods=3), pd.RangeIndex(3)]
    found += [
        pd.Series([1, None], dtype="Int64"),
        pd.Series([True, None], dtype="boolean"),
        pd.Index([1, 2]),
        pd.Timestamp("2020", tz="UTC"),
    ]
    found += [pa.table({"a": [1, 2], "b": ["x", None]}), pa.array([1, None]), pa.array(["a"])]
    found += [collections.deque([1], 3), collections.Counter("aab"), datetime.datetime(2020, 1, 1), decimal.Decimal("1.5")]
    return found


LEAVES: List[Any] = [
    *(0, 1, -1, 3, 7, 10, 255, 625, 1 << 16, 1 << 31, 1 << 33, 1 << 62, -(1 << 62), None, True, False, 1.5, float("nan")),
    *("", "a", "f8", "O", "V16", "C", b"", b"\0" * 8, b"\xff" * 64, (), (0,), (1 << 33,), (-1,), [], [None] * 4, {}, {"a": 1}),
    *(range(5), range(1 << 62), slice(0, 1), slice(0, 1 << 30), int, dict, np.dtype("f8"), np.dtype("O"), np.dtype([("a", "O")])),
    *(np.zeros(3), np.zeros((2, 2), "i4"), np.array([1 << 40] * 3), np.array(["a"], dtype=object), np.zeros(2, "M8[ns]")),
    *(np.array([-5, 9], "i1"), np.zeros(4, "u4"), np.zeros((1 << 33, 0)), np.ndarray),
]


class Mutating(_Unpickler):
    """Replaces what a pickle gives to functions and objects."""

    def __init__(self, stream: bytes, draw: random.Random) -> None:
        super().__init__(stream, [], frozenset())
        self.draw = draw
        self.share = draw.choice((0.05, 0.2, 0.5))

    def persistent_load(self, pid: Any) -> Any:
        if len(pid) == 3 and self.draw.random() < self.share:
            pid = (pid[0], self.mutated(pid[1]), pid[2])
        return super().persistent_load(pid)

    def mutated(self, value: Any) -> Any:
        draw = self.draw
        if type(value) in (tuple, list) and value and draw.random() < 0.75:
            at = draw.randrange(len(value))
            return value[:at] + type(value)([self.mutated(value[at])]) + value[at + 1 :]
        if type(value) is dict and value and draw.random() < 0.75:
            key = draw.choice(list(value))
            return {**value, key: self.mutated(value[key])}
        if type(value) is int and draw.random() < 0.5:
            return value + draw.choice((1, -1, 8, 100, 1 << 20, -value))
        if type(value) is bytes and value and draw.random() < 0.6:
            at = draw.randrange(len(value))
            return value[:at] + bytes([draw.randrange(256)]) + value[at + 1 :]
        if isinstance(value, np.ndarray) and value.size and value.dtype.kind in "iuf" and draw.random() < 0.5:
            changed = value.copy()
            changed.flat[draw.randrange(changed.size)] = draw.choice((0, 1, 3, 100))
            return changed
        return draw.choice(LEAVES)


def look_at(value: Any) -> None:
    """Does with a value what a program would do."""
    repr(value)
    if isinstance(value, np.ndarray):
        value.tolist()
    if scipy.sparse.issparse(value):
        value.tocsc().tocsr().tocoo()
    if isinstance(value, (np.random.Generator, np.random.RandomState)):
        value.normal(size=1000)
    if isinstance(value, np.random.BitGenerator):
        np.random.Generator(value).random(2000)
    if isinstance(value, (pd.DataFrame, pd.Series)):
        value.copy(deep=True).sort_index().isna()
        value.to_dict()
    if isinstance(value, pd.Index):
        value.sort_values().tolist()
    if isinstance(value, (pa.Table, pa.Array)):
        value.to_pylist()
    if isinstance(value, datetime.datetime):
        value.strftime("%c")
    pickle.dumps(value)


def main(count: int) -> None:
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    draw = random.Random(SEED)
    streams: List[Tuple[int, bytes]] = []
    for number, value in enumerate(values()):
        stream = pickle.dumps(value, 5)
        guarded = _native.guarded(stream)[1]
        assert guarded is not None, value
        reader = Reader()
        reader.use_hosts()
        reader.load(("P", stream, []))
        streams.append((number, guarded))
    resource.setrlimit(resource.RLIMIT_AS, (hostile.MEMORY_BYTES, hostile.MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    counts: collections.Counter[str] = collections.Counter(refused=0, read=0)
    for at in range(count):
        number, stream = draw.choice(streams)
        print(f"{at}: value {number}", end="\r", flush=True)
        try:
            value = Mutating(stream, draw).load()
        except (guards.Refused, qjam.RefusedResult):
            counts["refused"] += 1
            continue
        except MemoryError:
            print(f"{at}: value {number} took memory without end")
            sys.exit(1)
        except Exception:
            counts["failed"] += 1
            continue
        counts["read"] += 1
        try:
            look_at(value)
        except Exception:
            # It is inconsistent, and says so.
            counts["odd"] += 1
    print("", " ".join(f"{what}={number}" for what, number in counts.items()), sep="\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))

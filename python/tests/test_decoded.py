"""List chunks are unpickled once per interpreter, and every call sees them as the data set has them."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, Dict, List

import pytest
from events import HANG_S

import qjam
from qjam import DataSet, Master
from qjam._worker.decoded import Decoded


def decoding(items: List[Any], counts: List[int]) -> Any:
    def decode() -> List[Any]:
        counts[0] += 1
        return [dict(item) if isinstance(item, dict) else item for item in items]

    return decode


def test_a_chunk_is_decoded_once_and_its_list_is_the_callers_own() -> None:
    kept, counts = Decoded(1000), [0]
    for n in range(5):
        got = kept.open((b"a", None, None), 100, 0, b"code", n, decoding([3, "x", {"b": 1}], counts))
        assert got == [3, "x", {"b": 1}]
        got.clear()
    assert counts == [1]


def test_a_function_that_changes_items_gets_fresh_ones_in_every_round_and_others_do_not() -> None:
    kept, counts = Decoded(1000), [0]
    decode = decoding([{"b": 1}] * 40, counts)
    for n in range(4):
        got = kept.open((b"a", None, None), 100, 0, b"changes", n, decode)
        assert got[7] == {"b": 1}
        got[7]["b"] = 2
    assert counts == [4]
    for n in range(4, 8):
        assert kept.open((b"a", None, None), 100, 0, b"looks", n, decode)[7] == {"b": 1}
    assert counts == [5]


@pytest.mark.parametrize("place", [0, 7, 38])
def test_a_function_that_begins_to_change_items_gets_fresh_ones_from_then_on(place: int) -> None:
    kept, counts = Decoded(1000), [0]
    decode = decoding([{"b": n} for n in range(40)], counts)
    for n in range(6):
        got = kept.open((b"a", None, None), 100, 0, b"code", n, decode)
        assert got[place] == {"b": place}
        if n >= 3:
            got[place]["b"] = -1
    assert counts == [3], "once for the first rounds, and for each after the first change"


def test_what_is_kept_has_a_bound_and_old_chunks_make_room() -> None:
    kept = Decoded(250)
    counts: Dict[bytes, List[int]] = {name: [0] for name in (b"a", b"b", b"c")}

    def use(name: bytes, round: int) -> None:
        kept.open((name, None, None), 100, 0, b"code", round, decoding([1], counts[name]))
        assert kept.bytes <= 250

    for n in range(3):
        for name in counts:
            use(name, n)
    # The third has no room beside the others, which are found in every round.
    assert list(counts.values()) == [[1], [1], [3]]
    for n in range(3, 9):
        use(b"c", n)
    assert counts[b"c"][0] <= 5


def test_arrays_in_a_region_that_is_forgotten_are_dropped() -> None:
    kept, counts = Decoded(1000), [0]
    for region in (2, 2, 4):
        kept.open((b"a", None, None), 100, region, b"code", 1, decoding([1], counts))
    assert counts == [1]
    kept.forget(2)
    assert kept.bytes == 0
    kept.open((b"a", None, None), 100, 4, b"code", 1, decoding([1], counts))
    assert counts == [2]


ROWS = """
    import sys

    def rebuilt(n):
        sys.unpicklings = getattr(sys, "unpicklings", 0) + 1
        return Row(n)

    class Row:
        def __init__(self, n):
            self.n = n
        def __reduce__(self):
            return rebuilt, (self.n,)

    def mapfunc(params, chunk):
        before, sys.unpicklings = getattr(sys, "unpicklings", 0), 0
        return [sum(row.n for row in chunk), before, len(chunk)]
"""


@pytest.mark.parametrize("workers", ["local:1", "proc:1", "local:2"])
def test_the_second_round_unpickles_nothing(workers: str, tmp_path: Path) -> None:
    (tmp_path / "rows.py").write_text(textwrap.dedent(ROWS))
    script = f"""
    from qjam import DataSet, Master
    import rows
    data = DataSet([rows.Row(n) for n in range(6000)], slice_size=500)
    with Master({workers!r}, progress=False, run_folder=False) as m:
        for _ in range(20):
            print(*m.run(rows, None, data))
    """
    (tmp_path / "main.py").write_text(textwrap.dedent(script))
    env = {**os.environ, "PYTHONPATH": str(Path(qjam.__file__).resolve().parent.parent)}
    done = subprocess.run(
        [sys.executable, "main.py"], cwd=str(tmp_path), env=env, capture_output=True, text=True, timeout=HANG_S
    )
    assert done.returncode == 0, done.stderr
    rounds = [[int(word) for word in line.split()] for line in done.stdout.splitlines()]
    assert {(total, count) for total, _, count in rounds} == {(sum(range(6000)), 6000)}
    unpicklings = [n for _, n, _ in rounds]
    if workers.endswith(":1"):
        assert unpicklings == [6000] + [0] * 19
    else:
        # A chunk may go to another interpreter, which has not seen it.
        assert sum(unpicklings) <= 2 * 6000


def test_functions_that_change_their_chunk_give_the_same_in_every_round() -> None:
    def pops(params: Any, chunk: Any) -> int:
        chunk.sort(reverse=True)
        return int(chunk.pop())

    def changes(params: Any, chunk: Any) -> int:
        for row in chunk:
            row["n"] += params
        return sum(row["n"] for row in chunk)

    with Master("local:1", run_folder=False) as m:
        numbers = DataSet([5, 3, 4], slice_size=3)
        assert [m.run(pops, None, numbers) for _ in range(3)] == [3, 3, 3]
        rows = [{"n": n} for n in range(100)]
        assert [m.run(changes, 1, rows) for _ in range(4)] == [4950 + 100] * 4
        assert m.run(lambda p, c: sum(row["n"] for row in c), None, rows) == 4950

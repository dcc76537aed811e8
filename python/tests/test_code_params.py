"""Parameters on their way: buffers beside the pickle, and errors that name the part that cannot travel."""

from __future__ import annotations

import functools
import logging
import pickle
import re
import socket
import sys
import threading
from pathlib import Path
from typing import Any, Dict, List, Tuple

import numpy as np
import pytest
from events import HANG_S

from qjam import _code, _pickling
from qjam._code import pickle_params
from qjam._worker import loader
from qjam.errors import PicklingError


class Holder:
    def __init__(self, **parts: Any) -> None:
        self.__dict__.update(parts)


class Slotted:
    __slots__ = ("lock",)

    def __init__(self) -> None:
        self.lock = threading.Lock()


def test_large_arrays_lie_beside_the_pickle_and_are_not_copied() -> None:
    large, small = np.arange(1000.0), np.arange(8.0)
    stream, buffers = pickle_params({"large": large, "small": small})
    assert len(buffers) == 1 and len(stream) < 1000
    assert np.shares_memory(np.frombuffer(buffers[0].raw(), np.float64), large)
    back = pickle.loads(stream, buffers=buffers)
    assert np.array_equal(back["large"], large) and np.array_equal(back["small"], small)


@pytest.mark.parametrize(
    "array",
    [
        np.asfortranarray(np.arange(6000.0).reshape(60, 100)),
        np.arange(6000.0)[::2],
        np.arange(6000.0, dtype=">f8"),
        np.array([1, "two", None], dtype=object),
        np.ma.masked_array(np.arange(3000.0), np.arange(3000) % 2 == 0),
        np.zeros((0, 5)),
        np.arange(3000) * 1j,
    ],
    ids=["fortran", "strided", "big-endian", "objects", "masked", "empty", "complex"],
)
def test_arrays_of_any_layout_come_back_equal(array: Any) -> None:
    stream, buffers = pickle_params(array)
    back = pickle.loads(stream, buffers=buffers)
    assert type(back) is type(array) and back.dtype == array.dtype and np.ma.allequal(back, array)


def test_lambdas_in_parameters_travel() -> None:
    stream, buffers = pickle_params({"f": lambda x: x + 1})
    assert pickle.loads(stream, buffers=buffers)["f"](1) == 2


@pytest.mark.parametrize(
    ("params", "path"),
    [
        (
            {"model": Holder(lock=threading.Lock())},
            r"params\['model'\]\.lock: cannot pickle '_thread.lock' object",
        ),
        ([1, (2, Slotted())], r"params\[1\]\[1\]\.lock: cannot pickle"),
        (
            {"a": {"b": [Holder(x=Holder(files=[1, socket.socket()]))]}},
            r"params\['a'\]\['b'\]\[0\]\.x\.files\[1\]: cannot",
        ),
        ((i for i in range(3)), r"params: cannot pickle 'generator' object"),
    ],
    ids=["attribute", "slot", "deep", "itself"],
)
def test_a_part_that_cannot_travel_is_named_by_its_path(params: Any, path: str) -> None:
    with pytest.raises(PicklingError, match=path) as caught:
        pickle_params(params)
    assert isinstance(caught.value, TypeError)
    assert "__getstate__" in str(caught.value)


def test_a_captured_variable_that_cannot_travel_is_named() -> None:
    lock = threading.Lock()

    def locked(params: Any, chunk: Any) -> int:
        with lock:
            return 1

    with pytest.raises(PicklingError, match=r"locked, in its variable 'lock': cannot pickle '_thread.lock'"):
        _code.prepare(locked)
    with pytest.raises(PicklingError, match=r"the data set\[0\], in its variable 'lock'"):
        pickle_params([locked], "the data set")


def test_a_deep_structure_is_refused_and_not_fatal() -> None:
    deep: List[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(PicklingError, match="nested too deeply"):
        pickle_params(deep)


def test_the_search_for_trouble_looks_at_large_parts_last(monkeypatch: pytest.MonkeyPatch) -> None:
    lots = [[Holder(n=i) for i in range(1000)] for _ in range(300)]
    monkeypatch.setattr(_pickling, "SEARCH_SECONDS", HANG_S)  # also on a slow machine it is found in time
    with pytest.raises(PicklingError, match=r"params\[2\]: cannot pickle"):
        pickle_params([lots, lots, threading.Lock()])


def test_a_large_captured_variable_is_warned_of_by_name(caplog: pytest.LogCaptureFixture) -> None:
    matrix = np.random.default_rng(1).random(300_000)
    small = 3

    def multiply(params: Any, chunk: Any) -> float:
        return float(matrix[0]) * small

    with caplog.at_level(logging.WARNING, "qjam"):
        _code.prepare(multiply)
        _code.prepare(multiply)
    assert "the variable 'matrix' has 2.3 MiB" in caplog.text and "params" in caplog.text
    assert len(caplog.records) == 1


def test_the_size_of_captured_variables_is_that_of_their_bytes(caplog: pytest.LogCaptureFixture) -> None:
    # Both compress to almost nothing.
    zeros = np.zeros(3 << 17)
    numbers = [float(n % 2) for n in range(1 << 18)]

    def with_array(params: Any, chunk: Any) -> float:
        return float(zeros[0])

    def with_list(params: Any, chunk: Any) -> float:
        return numbers[0]

    def added(more: Any, params: Any, chunk: Any) -> float:
        return float(more[0])

    with caplog.at_level(logging.WARNING, "qjam"):
        _code.prepare(with_array)
        _code.prepare(with_list)
        _code.prepare(functools.partial(added, zeros))
    texts = [record.getMessage() for record in caplog.records]
    sizes = [float(re.findall(r"takes ([0-9.]+) MiB", text)[0]) for text in texts]
    parts = [re.findall(r"the variable '(.+)' has ([0-9.]+) MiB of it", text)[0] for text in texts]
    assert [name for name, _ in parts] == ["zeros", "numbers", "args[0]"]
    assert [float(size) for _, size in parts] == sizes == [3.0, 2.3, 3.0]


def test_what_was_prepared_is_used_again_when_nothing_has_changed() -> None:
    scale = 3

    def again(params: Any, chunk: Any) -> int:
        return scale * np.size(chunk)

    first = _code.prepare(again)
    assert all(_code.prepare(again) is first for _ in range(200))


def test_a_changed_variable_is_seen_although_the_function_is_the_same() -> None:
    scale = 3
    table = [1]

    def scaled(params: Any, chunk: Any) -> int:
        return scale

    def tabled(params: Any, chunk: Any) -> int:
        return len(table)

    first, second = _code.prepare(scaled).blob, _code.prepare(tabled).blob
    scale = 4
    table.append(2)
    assert _code.prepare(scaled).blob != first
    assert _code.prepare(tabled).blob != second


def test_a_function_that_is_made_anew_in_a_loop_has_the_same_bytes_and_its_own_variables() -> None:
    def make(n: int, seen: List[int]) -> Any:
        return lambda params, chunk: seen.append(n)

    lists: List[List[int]] = [[], [], []]
    made = [_code.prepare(make(n, seen)) for n, seen in zip((1, 1, 2), lists)]
    assert made[0].blob == made[1].blob != made[2].blob
    made[1].map(None, None)
    assert lists == [[], [1], []]


def test_modules_become_own_ones_when_the_working_folder_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "moved_shapes.py").write_text("class Square:\n    side = 2\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    import moved_shapes  # type: ignore[import-not-found]

    def area(params: Any, chunk: Any) -> int:
        return int(params.side**2)

    pickle_params(moved_shapes.Square())
    assert "moved_shapes" not in loader.unpack(_code.prepare(area).blob)["sources"]
    monkeypatch.chdir(tmp_path)
    pickle_params(moved_shapes.Square())
    assert "moved_shapes" in loader.unpack(_code.prepare(area).blob)["sources"]


def test_whatever_a_function_has_from_outside_is_looked_at_again() -> None:
    names: Dict[str, Any] = {"__name__": "__main__"}
    text = "def helper():\n    return 1\n"
    exec(text, names)
    exec("def work(params, chunk, scale=1, *, more=2):\n    return helper() + scale + more + later", names)
    work = names["work"]
    bound = functools.partial(work, scale=5)

    def blobs() -> Tuple[bytes, bytes]:
        first = _code.prepare(work)
        assert _code.prepare(work) is first
        return first.blob, _code.prepare(bound).blob

    seen = [blobs()]
    for change in (
        lambda: names.update(later=3),
        lambda: exec(text.replace("1", "100"), names),
        lambda: setattr(work, "__defaults__", (7,)),
        lambda: work.__kwdefaults__.update(more=8),
        lambda: names.update(later="text"),
    ):
        change()
        seen.append(blobs())
        assert seen[-1][0] != seen[-2][0] and seen[-1][1] != seen[-2][1]
    bound.keywords["scale"] = 6
    assert blobs()[0] == seen[-1][0] and blobs()[1] != seen[-1][1]

"""Results taken apart and put together again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from qjam._worker import values


def through(obj: Any) -> Any:
    """What comes out at the other end."""
    kind, head, rest = values.dump(obj, True)
    if kind == "N":
        rest = [(tag, leaf if tag == "i" else bytearray(memoryview(leaf).tobytes())) for tag, leaf in rest]
    return values.load((kind, head, rest))


def same(a: Any, b: Any) -> bool:
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray):
        return type(a) is type(b) and a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    return type(a) is type(b) and bool(a == b)


NUMBERS = [
    1.5,
    -7,
    2**63 - 1,
    -(2**63),
    np.float64(2.5),
    np.float32(0.1),
    np.int64(-3),
    np.complex128(1 + 2j),
    [],
    (),
    [1.0, 2.0, 3.0, 4.0, 5.0],
    (1.0,) * 100_000,
    (3.5, [1, (2.0, [])], np.arange(6.0).reshape(2, 3)),
    np.zeros((0, 3)),
    np.ones((2, 0), "f4"),
    np.arange(12, dtype="i8").reshape(3, 2, 2),
    np.array([1 + 2j, 3 - 4j], "c8"),
]

OTHERS = [
    None,
    True,
    "text",
    {"a": 1},
    2**63,
    [1, "x"],
    np.array(1.0),
    np.arange(3, dtype="i4"),
    np.arange(3.0).astype(">f8"),
    np.arange(12.0).reshape(3, 4).T,
    np.arange(12.0)[::2],
    np.array(["a", None], object),
    np.ma.masked_array([1.0, 2.0], [True, False]),
    np.float16(1.5),
    np.bool_(True),
    list(range(5000)),
]


@pytest.mark.parametrize("obj", NUMBERS, ids=lambda obj: repr(obj)[:40])
def test_numbers_are_leaves_and_come_back_as_they_were(obj: Any) -> None:
    assert values.dump(obj, True)[0] == "N"
    assert same(obj, through(obj))


@pytest.mark.parametrize("obj", OTHERS, ids=lambda obj: repr(obj)[:40])
def test_what_only_python_can_add_is_pickled(obj: Any) -> None:
    assert values.dump(obj, True)[0] == "P"
    back = through(obj)
    assert type(back) is type(obj)
    if not isinstance(obj, np.ndarray):
        assert back == obj


def test_with_a_reduce_of_the_user_nothing_is_taken_apart() -> None:
    assert values.dump(1.5, False)[0] == "P"


def test_different_sums_have_different_shapes() -> None:
    shapes = [bytes(values.dump(obj, True)[1]) for obj in NUMBERS if type(obj) is not int]
    assert len(set(shapes)) == len(shapes)
    assert bytes(values.dump([1.0, 2.0], True)[1]) != bytes(values.dump((1.0, 2.0), True)[1])
    assert bytes(values.dump([1.0], True)[1]) != bytes(values.dump([1], True)[1])


def test_arrays_are_not_copied_on_the_way_out_and_can_be_written_when_back() -> None:
    array = np.arange(1000.0)
    leaf = values.dump([array], True)[2][0][1]
    assert np.shares_memory(leaf, array)
    (back,) = through([array])
    back += 1.0
    assert back[0] == 1.0


def test_a_list_that_holds_itself_is_no_sum_of_numbers() -> None:
    obj: list[Any] = [1.0]
    obj.append(obj)
    assert values.dump(obj, True)[0] == "P"


PLAIN = [
    np.ones(8),
    np.arange(6, dtype="f4").reshape(2, 3),
    np.arange(1000.0),
    np.array([True, False]),
    np.arange(5, dtype="u2"),
    np.ones(3, dtype="c16"),
    np.ones((1,) * 20),
    (0.5, np.ones(8)),
    (np.arange(300.0), -3, np.ones(2), 2**62, np.ones(400, dtype="f4"), float("inf")),
]


@pytest.mark.parametrize("params", PLAIN, ids=repr)
def test_parameters_of_arrays_and_numbers_need_no_pickle(params: Any) -> None:
    packed = values.pack(params)
    assert packed is not None
    stream, buffers = packed
    found = values.unpack(memoryview(stream), [memoryview(buffer).toreadonly() for buffer in buffers])
    assert same(found, params)
    for array in found if isinstance(found, tuple) else [found]:
        if isinstance(array, np.ndarray):
            assert array.dtype.str[0] in "<|" and array.flags.aligned and not array.flags.writeable


@pytest.mark.parametrize(
    "params",
    [
        None,
        1.5,
        (),
        (1.0, 2.0),
        [np.ones(2)],
        (True, np.ones(2)),
        (None, np.ones(2)),
        (2**63, np.ones(2)),
        (np.float64(1), np.ones(2)),
        (np.ones(2),) * 17,
        np.array(1.5),
        np.ones((0, 3)),
        np.ones(3, dtype=">f8"),
        np.ones((2, 3), order="F"),
        np.ones(6)[::2],
        np.ma.array([1.0, 2.0], mask=[False, True]),
        np.array(["text"]),
        np.array([None]),
        np.zeros(2, dtype=[("a", "f8")]),
        np.zeros(2, dtype="M8[s]"),
        np.ones(2, dtype=np.dtype("f8", metadata={"unit": "m"})),
    ],
    ids=repr,
)
def test_other_parameters_are_pickled(params: Any) -> None:
    assert values.pack(params) is None


def test_pickles_are_read_as_well_as_plain_parameters() -> None:
    from qjam._code import pack_params

    stream, buffers = pack_params({"rate": 0.5, "w": np.ones(3)})
    assert repr(values.unpack(stream, buffers)) == repr({"rate": 0.5, "w": np.ones(3)})
    assert not pack_params(np.ones(3))[0].startswith(b"\x80")

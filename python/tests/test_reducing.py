"""The default reduction, on its own."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from dataclasses import dataclass, field
from typing import Any, Dict, List, NamedTuple

import numpy as np
import pytest

from qjam.common.reducing import default_reduce


@pytest.mark.parametrize(
    "left, right, expected",
    [
        (1, 2, 3),
        (1.5, 2, 3.5),
        ("a", "b", "ab"),
        ([1, 2], [10, 20], [11, 22]),
        ((1, 2), (10, 20), (11, 22)),
        ((1, 2), [10, 20], [11, 22]),
        ([1, 2], (10, 20), [11, 22]),
        ([1, (2, [3])], [10, (20, [30])], [11, (22, [33])]),
        ([], [], []),
        (2**63, 2**63, 2**64),
    ],
)
def test_numbers_are_added_and_sequences_element_by_element(left: Any, right: Any, expected: Any) -> None:
    result = default_reduce(left, right)
    assert result == expected and type(result) is type(expected)


def test_arrays_are_added_inside_of_sequences_too() -> None:
    cost, gradient = default_reduce((1.0, np.array([1.0, 2.0])), (2.0, np.array([10.0, 20.0])))
    assert cost == 3.0 and gradient.tolist() == [11.0, 22.0]


def test_a_list_of_results_is_added_from_left_to_right() -> None:
    assert default_reduce(["a", "b", "c"]) == "abc"
    assert default_reduce([(1, 2), (3, 4), (5, 6)]) == (9, 12)
    assert default_reduce([7]) == 7
    with pytest.raises(TypeError, match="at least one"):
        default_reduce([])


def test_what_was_given_is_not_changed() -> None:
    left: list[Any] = [np.ones(2), [1]]
    right: list[Any] = [np.ones(2), [2]]
    default_reduce(left, right)
    assert left[0].tolist() == [1, 1] and left[1] == [1] and right[1] == [2]


@pytest.mark.parametrize(
    "left, right, words",
    [
        ([1, 2], [1, 2, 3], ["the result", "2 elements", "3 for others"]),
        ((1, [1, 2]), (1, [1]), ["result[1]", "2 elements", "1 for others"]),
        (1, None, ["None", "forget to return"]),
        ([1, None], [1, 2], ["result[1]", "None"]),
        (1, "a", ["int and str", "reduce=f"]),
        ({"a": 1}, {"a": "b"}, ["result['a']", "int and str"]),
        ({"a": 1}, [1], ["dict and list"]),
        ([1], 1, ["list and int"]),
        (np.ones(3), np.ones((3, 1)), ["(3,)", "(3, 1)"]),
        (np.ones(3), np.ones(1), ["(3,)", "(1,)"]),
        ((np.ones(2), np.ones(3)), (np.ones(2), np.ones(2)), ["result[1]", "(3,)", "(2,)"]),
    ],
)
def test_what_cannot_be_added_is_a_type_error_that_names_the_part(left: Any, right: Any, words: list[str]) -> None:
    with pytest.raises(TypeError) as caught:
        default_reduce(left, right)
    for word in words:
        assert word in str(caught.value)


def test_a_number_may_be_added_to_an_array() -> None:
    assert default_reduce(0, np.ones(2)).tolist() == [1, 1]
    assert default_reduce(np.float64(1), np.ones(2)).tolist() == [2, 2]


class Moments(NamedTuple):
    rows: int
    sums: Any


@dataclass(frozen=True)
class Loss:
    value: float
    gradient: Any
    names: Dict[str, int] = field(default_factory=dict)


class Largest(NamedTuple):
    value: int

    def __add__(self, other: Any) -> Any:
        return max(self, other)


@pytest.mark.parametrize(
    "left, right, expected",
    [
        ({"a": 1, "b": 2.5}, {"b": 1, "c": [1]}, {"a": 1, "b": 3.5, "c": [1]}),
        ({}, {"a": 1}, {"a": 1}),
        ({"a": {"b": (1, 2)}}, {"a": {"b": (3, 4)}}, {"a": {"b": (4, 6)}}),
        (OrderedDict(a=1), OrderedDict(b=1, a=2), OrderedDict(a=3, b=1)),
        (defaultdict(int, a=1), defaultdict(int, a=2), defaultdict(int, a=3)),
        (Counter(a=1, b=0), Counter(a=-1), Counter(a=0, b=0)),
        ({1, 2}, {2, 3}, {1, 2, 3}),
        (frozenset({1}), frozenset({2}), frozenset({1, 2})),
        (None, None, None),
        ((None, 1), (None, 2), (None, 3)),
        (Moments(1, 2.0), Moments(3, 4.0), Moments(4, 6.0)),
        (Loss(1.0, 2.0, {"a": 1}), Loss(3.0, 4.0, {"b": 2}), Loss(4.0, 6.0, {"a": 1, "b": 2})),
        (Largest(3), Largest(2), Largest(3)),
    ],
)
def test_dictionaries_and_fields_are_added_one_by_one_and_stay_what_they_are(
    left: Any, right: Any, expected: Any
) -> None:
    result = default_reduce(left, right)
    assert result == expected and type(result) is type(expected)


def test_a_message_names_the_field() -> None:
    with pytest.raises(TypeError, match=r"result\.gradient\[1\] has the shape"):
        default_reduce(Loss(1, [0, np.ones(2)]), Loss(1, [0, np.ones(3)]))
    with pytest.raises(TypeError, match=r"result\.sums .* forget to return"):
        default_reduce(Moments(1, None), Moments(1, 2))


INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_an_integer_sum_that_does_not_fit_is_an_error_and_one_that_just_fits_is_not(dtype: str) -> None:
    limits = np.iinfo(dtype)
    ends = [int(limits.max)] if limits.min == 0 else [int(limits.max), int(limits.min)]
    for end in ends:
        one = 1 if end > 0 else -1
        near, unit = np.array([0, end - one], dtype), np.array([0, one], dtype)
        assert default_reduce(near, unit).tolist() == [0, end]
        assert default_reduce(near[1], unit[1]) == end and default_reduce(near, one)[1] == end
        over = np.array([0, end], dtype)
        cases: List[Any] = [(over, unit), (over[1], unit[1]), (over, one), (one, over), ({"a": over}, {"a": unit})]
        for left, right in cases:
            with pytest.raises(OverflowError, match=f"{end} .*does not fit {dtype}|{one} .*does not fit {dtype}"):
                default_reduce(left, right)


def test_sums_of_other_numbers_are_not_taken_for_overflows() -> None:
    assert default_reduce(np.array([2**62]), np.array([-(2**62)])).tolist() == [0]
    assert default_reduce(np.array([100, -100], "i1"), np.array([-100, 100], "i1")).tolist() == [0, 0]
    assert default_reduce(np.array([200], "u1"), np.array([200], "u2")).tolist() == [400]
    assert default_reduce(np.array([2**62], object), np.array([2**62], object)).tolist() == [2**63]
    assert default_reduce(np.zeros(0, "i1"), np.zeros(0, "i1")).shape == (0,)
    assert bool(default_reduce(np.True_, np.True_)) and default_reduce(2**62, 2**62) == 2**63
    hidden = np.ma.masked_array([127, 1], [True, False], dtype="i1")
    assert default_reduce(hidden, hidden).tolist() == [None, 2]

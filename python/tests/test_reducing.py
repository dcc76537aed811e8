"""The default reduction, on its own."""

from __future__ import annotations

from typing import Any

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
        (None, None, ["None", "forget to return"]),
        ([1, None], [1, 2], ["result[1]", "None"]),
        (1, "a", ["int and str", "reduce(a, b)"]),
        ({"a": 1}, {"a": 2}, ["dict and dict"]),
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

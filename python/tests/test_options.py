"""Options of a master: sizes, words, and those that nobody knows."""

from __future__ import annotations

from typing import Any

import pytest

from qjam import Master, WorkerStringError, _native
from qjam._ready import byte_count


@pytest.mark.parametrize(
    "text, bytes_max",
    [
        ("4096", 4096), ("64K", 64 << 10), ("500MB", 500 << 20), ("500 m", 500 << 20), ("20GiB", 20 << 30),
        (" 1TB ", 1 << 40), (7, 7), (None, None),
    ],
)  # fmt: skip
def test_sizes_are_read_as_people_write_them(text: Any, bytes_max: Any) -> None:
    assert byte_count(text, "memory_limit") == bytes_max


@pytest.mark.parametrize("wrong", ["", "G", "-1", "1.5G", "20X", "99999999999T", "1ö", -1, 1.5, b"1G"])
@pytest.mark.parametrize("name", ["memory_limit", "cache_limit", "disk_limit"])
def test_what_is_no_size_is_refused_with_what_to_write(name: str, wrong: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=f"{name} is a number of bytes, or a text such as '500M'"):
        Master("local:1", **{name: wrong})


def test_a_limit_may_be_a_text() -> None:
    with Master("local:1", memory_limit="500MB") as m:
        with pytest.raises(MemoryError) as told:
            m.run(lambda params, chunk: len(bytearray(2**30)), None, [1])
        assert "500 MiB" in str(told.value.__cause__)


@pytest.mark.parametrize("text", ["inproc:x", "inproc:0", "auto:inproc:two"])
def test_a_wrong_number_of_threads_is_told_in_the_users_words(text: str) -> None:
    with pytest.raises(WorkerStringError) as told:
        Master(text)
    assert f"`{text}`" in str(told.value) and "local" not in str(told.value)


def test_an_option_that_the_native_part_does_not_know_is_an_error() -> None:
    with pytest.raises(TypeError, match="no option no_such_thing.*different versions"):
        _native.Master("local:1", False, {"no_such_thing": 1}, lambda: None)

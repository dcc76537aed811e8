"""Unpickled list chunks that an interpreter keeps between rounds.

Comes in: the hash of a chunk's content and a function that unpickles it. Goes out: a list of its own for every call, whose items are
those of the first call, as long as no function has changed them. Items that cannot change (numbers, texts) need no check. For others
a checksum of the items is compared before every further call. If they have changed, the chunk is unpickled again, and always will
be for the functions that had it. So a function sees the chunk as the data set has it, whatever earlier calls did to it.
"""

from __future__ import annotations

import marshal
import os
import pickle
import zlib
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

_FIXED = {type(None), bool, int, float, complex, str, bytes}
# What an unpickled chunk takes, compared with its pickle.
_GROWTH = 8


# The hash of a chunk's content, the modules that it was unpickled with, and its index if it has a state.
Key = Tuple[bytes, object, Optional[int]]


class _Entry:
    __slots__ = ("items", "size", "used", "checksum", "unchecked", "region")

    def __init__(self, items: List[Any], size: int, used: int, checksum: Optional[int], region: int) -> None:
        self.items = items
        self.size = size
        # The last round that used it.
        self.used = used
        # Of the items; None if they cannot change.
        self.checksum = checksum
        # Functions that have got it since the last comparison.
        self.unchecked: Set[bytes] = set()
        # The region that arrays in the items lie in; 0 if there are none.
        self.region = region


class Decoded:
    """Unpickled chunks by the hash of their content, up to so many bytes of pickles."""

    def __init__(self, bytes_max: Optional[int] = None) -> None:
        self.bytes_max = room() if bytes_max is None else bytes_max
        self.bytes = 0
        self.entries: Dict[Key, _Entry] = {}
        # Functions that change the items of their chunks.
        self.changing: Set[bytes] = set()

    def open(
        self, key: Key, size: int, region: int, code: bytes, round: int, decode: Callable[[], Any]
    ) -> Any:
        """The chunk, for a call of this code."""
        if code in self.changing:
            return decode()
        entry = self.entries.get(key)
        if entry is not None and not self._is_unchanged(key, entry):
            entry = None
            if code in self.changing:
                return decode()
        if entry is None:
            items = decode()
            if type(items) is not list or not self._make_room(size, round):
                return items
            checksum = None
            if not set(map(type, items)) <= _FIXED:
                try:
                    checksum = checksum_of(items, region != 0)
                except Exception:
                    # They can be read and not written again, so nobody can compare them.
                    return items
            entry = self.entries[key] = _Entry(items, size, round, checksum, region)
            self.bytes += size
        entry.used = round
        if entry.checksum is not None:
            entry.unchecked.add(code)
        return list(entry.items)

    def forget(self, region: int) -> None:
        """Drops chunks whose arrays lie in this region."""
        for key in [key for key, entry in self.entries.items() if entry.region == region]:
            self._drop(key)

    def _drop(self, key: Key) -> None:
        self.bytes -= self.entries.pop(key).size

    def _is_unchanged(self, key: Key, entry: _Entry) -> bool:
        """Compares a chunk with what it was. Drops it if it has changed."""
        if not entry.unchecked:
            return True
        try:
            is_same = checksum_of(entry.items, entry.region != 0) == entry.checksum
        except Exception:
            is_same = False
        if not is_same:
            self.changing |= entry.unchecked
            self._drop(key)
        entry.unchecked = set()
        return is_same

    def _make_room(self, size: int, round: int) -> bool:
        """Whether there is room for a chunk. Drops chunks that were not used in this round or the one before."""
        if size <= self.bytes_max < self.bytes + size:
            for key in [key for key, entry in self.entries.items() if entry.used + 1 < round]:
                self._drop(key)
        return self.bytes + size <= self.bytes_max


class _Sum:
    """Adds up what is written to it."""

    def __init__(self) -> None:
        self.value = 0

    def write(self, data: Any) -> int:
        self.value = zlib.crc32(data, self.value)
        return len(data)


def checksum_of(items: List[Any], has_arrays: bool = False) -> int:
    """A checksum of items; the same objects have the same one until one of them changes."""
    if not has_arrays:
        try:
            # Several times as fast as pickling. Of an array it would take the elements without their shape.
            value = 0
            for item in items:
                value = zlib.crc32(marshal.dumps(item, 2), value)
            return value
        except ValueError:
            # There are objects of classes among them.
            pass
    out = _Sum()
    pickle.Pickler(out, 5).dump(items)
    return out.value


def room() -> int:
    """How many bytes of pickles an interpreter keeps unpickled."""
    import resource

    most = 256 << 20
    limit, _ = resource.getrlimit(resource.RLIMIT_DATA)
    if limit != resource.RLIM_INFINITY:
        # A quarter of the memory that it may have.
        most = min(most, limit // (4 * _GROWTH))
    try:
        with open("/proc/meminfo", "rb") as file:
            free = next(int(line.split()[1]) << 10 for line in file if line.startswith(b"MemAvailable:"))
        most = min(most, free // (4 * _GROWTH * (os.cpu_count() or 1)))
    except (OSError, StopIteration, ValueError):
        pass
    return most

"""Memory that an interpreter shares with its slot: what it was handed, and where it leaves long results."""

from __future__ import annotations

import fcntl
import mmap
import os
import sys
from typing import Dict, Optional, Union

Buffer = Union[bytes, memoryview]

# fcntl has names for these only where the C library had them when Python was built.
_ADD_SEALS = 1033
_SEAL_SHRINK_GROW = 2 | 4

_ROOM_MIN = 1 << 20


class Regions:
    """Memory that was handed over, by number, for reading only.

    The slot says which are to be forgotten; what the user's code still refers to stays until it does no longer.
    """

    def __init__(self) -> None:
        self.by_number: Dict[int, mmap.mmap] = {0: mmap.mmap(-1, 1)}
        # How many references there are to one that nobody uses depends on the interpreter's version.
        self.unused = self.references(0)
        self.forget(0)

    def add(self, number: int, fd: int, length: int) -> None:
        """Maps a file and closes it. A number that is here already is mapped again: the file has grown."""
        try:
            # Private, because older kernels refuse a shared mapping of memory that is sealed against writing. What is
            # never written is the file's own all the same. Odd numbers are written again and again by the slot.
            flags = mmap.MAP_SHARED if number & 1 else mmap.MAP_PRIVATE
            self.by_number[number] = mmap.mmap(fd, length, flags=flags, prot=mmap.PROT_READ)
        finally:
            os.close(fd)

    def forget(self, number: int) -> None:
        """Lets go of one."""
        self.by_number.pop(number, None)

    def is_used(self, number: int) -> bool:
        """Whether anybody but this table refers to one: a view keeps its mapping."""
        return number in self.by_number and self.references(number) > self.unused

    def references(self, number: int) -> int:
        """How many refer to one."""
        return sys.getrefcount(self.by_number[number])


class Results:
    """Memory that this interpreter writes and its slot reads, made anew when it is too short."""

    def __init__(self) -> None:
        self.room: Optional[mmap.mmap] = None

    def reserve(self, length: int) -> Optional[int]:
        """Makes sure of room; gives the file of new memory, to be handed to the slot and closed."""
        if self.room is not None and len(self.room) >= length:
            return None
        self.room = None
        rounded = max(_ROOM_MIN, -(-length // _ROOM_MIN) * _ROOM_MIN)
        fd = os.memfd_create("qjam-results", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(fd, rounded)
        fcntl.fcntl(fd, _ADD_SEALS, _SEAL_SHRINK_GROW)
        self.room = mmap.mmap(fd, rounded)
        return fd

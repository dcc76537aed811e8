"""Memory regions that a slot shares with its interpreter.

The slot creates all of them, because interpreters built for old systems cannot create anonymous shared memory.
"""

from __future__ import annotations

import mmap
import os
import sys
from typing import Dict


class Regions:
    """Read-only regions, by number.

    The slot says which are to be forgotten; what the user's code still refers to stays until it does no longer.
    """

    def __init__(self) -> None:
        self.by_number: Dict[int, mmap.mmap] = {0: mmap.mmap(-1, 1)}
        # The reference count of an unused region depends on the interpreter's version.
        self.unused = self.references(0)
        self.forget(0)

    def add(self, number: int, fd: int, length: int) -> None:
        """Maps a file and closes it. A known number is mapped again, because the file has grown."""
        try:
            # Private, because older kernels refuse a shared mapping of memory that is sealed against writing. What is
            # never written is the file's own all the same. Odd numbers are written again and again by the slot.
            flags = mmap.MAP_SHARED if number & 1 else mmap.MAP_PRIVATE
            self.by_number[number] = mmap.mmap(fd, length, flags=flags, prot=mmap.PROT_READ)
        finally:
            os.close(fd)

    def forget(self, number: int) -> None:
        """Forgets a region."""
        self.by_number.pop(number, None)

    def is_used(self, number: int) -> bool:
        """Whether something besides this table refers to a region; a view keeps its mapping."""
        return number in self.by_number and self.references(number) > self.unused

    def references(self, number: int) -> int:
        """The reference count of a region."""
        return sys.getrefcount(self.by_number[number])


def room(fd: int, length: int) -> mmap.mmap:
    """Maps memory to write long results into, and closes its file."""
    try:
        return mmap.mmap(fd, length)
    finally:
        os.close(fd)

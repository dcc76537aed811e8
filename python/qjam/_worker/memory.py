"""Memory that an interpreter was handed by its slot.

All of it is made by the slot: interpreters that were built for old systems cannot make any that has no name.
"""

from __future__ import annotations

import mmap
import os
import sys
from typing import Dict


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


def room(fd: int, length: int) -> mmap.mmap:
    """Maps memory to write long results into, and closes its file."""
    try:
        return mmap.mmap(fd, length)
    finally:
        os.close(fd)

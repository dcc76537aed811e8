"""A run file that grows, as a master with very many workers would write it: what reads run files cannot tell it from one."""

from __future__ import annotations

import fcntl
import os
import struct
import zlib
from pathlib import Path
from typing import List


def _number(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _text(text: str) -> bytes:
    return _number(len(text.encode())) + text.encode()


def _record(kind: int, *parts: bytes) -> bytes:
    body = _number(kind) + b"".join(parts)
    return struct.pack("<II", len(body), zlib.crc32(body)) + body


class GrowingRun:
    """Rounds of so many workers, so many microseconds each; the file is locked as by its master until it is closed."""

    def __init__(self, path: Path, workers: int, us_each: int) -> None:
        self.path, self.workers, self.us_each, self.rounds = path, workers, us_each, 0
        self.file = path.open("wb")
        fcntl.flock(self.file, fcntl.LOCK_EX)
        numbers = [_number(n) for n in (1_790_000_000_000_000, os.getpid(), 7, 0)]
        program = [_text("nowhere"), _text("simulated"), _number(0), _number(0), _number(0), _text("/")]
        rest = [_text("0"), _text(f"proc:{workers}"), _number(1), b"\0"]
        head = b"qjam run" + struct.pack("<HB5x", 1, 0)
        seats = [_record(2, _number(seat), _text(f"proc:{seat}")) for seat in range(workers)]
        joined = [_record(5, _number(10), _number(1), _number(seat), _number(1)) for seat in range(workers)]
        named = [_record(3, _number(0), _text("simulated::round")), _record(4, _number(0), b"\1" * 32, _number(workers), _number(1 << 20))]
        self._write([head, _record(0, *numbers, *program, *rest), *named, *seats, *joined])
        # A few patterns of computing times, so that writing costs little.
        self.patterns = [
            b"".join(_number(seat) + _number(us_each * (30 + (seat * 7 + 5 * n) % 60) // 100) for seat in range(workers))
            for n in range(8)
        ]

    def grow(self, rounds: int) -> None:
        pieces: List[bytes] = []
        for _ in range(rounds):
            n, at = self.rounds, self.rounds * self.us_each
            self.rounds += 1
            ended, worker = _number(at + self.us_each), self.us_each * 9 // 10
            pieces.append(_record(6, _number(n), _number(at), _number(0), _number(0)))
            times = [self.us_each, worker, self.us_each // 100, self.us_each - worker - self.us_each // 100]
            report = b"".join(map(_number, [n, *times, 8000, 64_000 + 100 * (n % 50), *[0] * 10]))
            pieces.append(_record(7, _number(n), ended, b"\0", report, _number(0), b"\0"))
            pieces.append(_record(15, _number(n), _number(self.workers), self.patterns[n % 8]))
            value = struct.pack("<d", 1.0 / (1 + 0.05 * n))
            pieces.append(_record(17, ended, _number(n + 1), _text("objective"), value))
        self._write(pieces)

    def _write(self, pieces: List[bytes]) -> None:
        self.file.write(b"".join(pieces))
        self.file.flush()

    def close(self) -> None:
        self.file.close()

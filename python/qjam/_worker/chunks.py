"""Opens chunks: bytes and what they are become what a map function is given."""

from __future__ import annotations

import pickle
import struct
from typing import Any, Tuple

_DENSE = {"f64": "<f8", "f32": "<f4", "i64": "<i8", "i32": "<i4", "u64": "<u8", "u32": "<u4", "u8": "u1", "i8": "i1"}


def open_chunk(kind: str, dtype: str, shape: Tuple[int, ...], buffer: Any) -> Any:
    """What a map function is given for a chunk."""
    if kind == "nothing":
        return []
    if kind in ("dense", "ndarray"):
        import numpy as np

        return np.ndarray(shape, _DENSE[dtype] if kind == "dense" else dtype, buffer)
    if kind == "pickle5":
        view = memoryview(buffer)
        length, count = struct.unpack_from("<QQ", view)
        lengths = struct.unpack_from(f"<{count}Q", view, 16)
        at = 16 + 8 * count
        stream = view[at : at + length]
        at += length
        buffers = []
        for each in lengths:
            at = -(-at // 64) * 64
            buffers.append(view[at : at + each])
            at += each
        return pickle.loads(stream, buffers=buffers)
    raise TypeError(f"chunks of the kind {kind!r} cannot be opened in Python")

"""The function :func:`shared`: arrays in memory that interpreters map.

Comes in: an array. Goes out: a read-only array over shared memory of this process. What is over such memory is known by the memory
itself (``crates/data/src/store/mapped.rs``), so nothing has to be remembered about arrays.
"""

from __future__ import annotations

from typing import Any

__all__ = ["shared"]


def shared(array: Any) -> Any:
    """Copies an array into memory that workers on this machine map, and returns it as a read-only array.

    Runs over it, or over rows ``x[a:b]`` of it, copy nothing and make no checksum: nobody can write to it. Other arrays of more
    than 64 MiB are read once before every run, to see whether they have changed, and are copied into such memory by the second
    run that finds them as they were, if there is enough of it. The memory is given back with the last array over it.

    >>> import numpy as np
    >>> import qjam
    >>> x = qjam.shared(np.arange(6.0).reshape(3, 2))
    >>> x.flags.writeable, x[1]
    (False, array([2., 3.]))
    >>> with qjam.Master("local:2") as m:
    ...     m.run(lambda params, rows: rows.sum(axis=0), None, x)
    array([6., 9.])

    Raises:
        TypeError: for arrays of Python objects.
    """
    import numpy as np

    from ._native import share
    from .dataset._arrays import dtype_text, is_sealed, memory_of

    rows = np.asarray(array)
    if rows.dtype.hasobject:
        raise TypeError("an array of Python objects cannot lie in shared memory; its elements are numbers, times or texts")
    if dtype_text(rows.dtype) is None:
        raise TypeError(f"an array of {rows.dtype} cannot lie in shared memory")
    if rows.flags.c_contiguous and rows.dtype.isnative and is_sealed(rows):
        return rows
    rows = np.ascontiguousarray(rows, dtype=rows.dtype.newbyteorder("=")).reshape(rows.shape)
    if not rows.nbytes:
        return np.ndarray(rows.shape, rows.dtype, buffer=b"")
    return np.asarray(share(memory_of(rows))).view(rows.dtype).reshape(rows.shape)

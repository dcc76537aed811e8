"""Whether all interpreters compute with the same numbers: the same NumPy, the same linear algebra, the same kind of CPU.

Functions of the user call libraries, and these may round differently in other versions and on other processors. Interpreters on
this machine are those of the user's own program, so only those on hosts are compared.
"""

from __future__ import annotations

from typing import Dict, List, Sequence, Tuple

__all__ = ["Kind", "differences", "warning"]

#: Name, NumPy's version, the linear algebra it was built with, the CPU features it found; empty texts where unknown.
Kind = Tuple[str, str, str, str]

_WHAT = ("versions of NumPy", "libraries for linear algebra (BLAS)", "CPU features")


def differences(kinds: Sequence[Kind]) -> List[str]:
    """A sentence for each thing in which interpreters differ.

    >>> differences([("here", "2.1.0", "openblas 0.3", "AVX2"), ("big", "1.26.4", "openblas 0.3", "AVX2")])
    ['different versions of NumPy: 2.1.0 (here), 1.26.4 (big)']
    """
    found = []
    for at, what in enumerate(_WHAT, 1):
        who: Dict[str, List[str]] = {}
        for kind in kinds:
            if kind[at]:
                who.setdefault(kind[at], []).append(kind[0])
        if len(who) < 2:
            continue
        if at == 3:
            # Long lists of features: the hosts say enough.
            told = "; ".join(" and ".join(hosts) for hosts in who.values())
        else:
            told = ", ".join(f"{value} ({', '.join(hosts)})" for value, hosts in who.items())
        found.append(f"different {what}: {told}")
    return found


def warning(kinds: Sequence[Kind]) -> str:
    """What to say of these interpreters; empty if nothing."""
    found = differences(kinds)
    if not found:
        return ""
    return (
        "interpreters differ, so NumPy may round differently on different workers, and results may depend on which worker "
        "computes what: " + ". ".join(found) + "."
    )

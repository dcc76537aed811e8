"""``Master`` where the original has it.

>>> from qjam.master.master import Master
"""

from __future__ import annotations

from qjam import Master

__all__ = ["Master"]

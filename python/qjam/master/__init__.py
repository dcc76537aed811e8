"""The module paths of the original: ``qjam.master.master`` and ``qjam.master.remote_worker``."""

from __future__ import annotations

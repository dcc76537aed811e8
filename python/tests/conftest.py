"""What all tests rely on."""

from __future__ import annotations

import signal

# Shells start jobs in the background with Ctrl-C ignored, which all programs started from them inherit. Several tests press it.
signal.signal(signal.SIGINT, signal.default_int_handler)

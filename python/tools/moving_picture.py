"""Records the live page of ``qjam demo`` in a real browser, as a moving picture for the front page of the documentation.

    pip install pillow
    python python/tools/moving_picture.py /usr/local/bin/qjam docs/book/img/live.webp

Needs Chromium (``cargo xtask setup`` installs it). Nothing is drawn: each frame is what the browser showed.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import List, Tuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from devtools import Browser, Page
from PIL import Image

#: Seconds between two frames, and for which the last one stays.
EVERY_S, LAST_S = 0.12, 3.0
SIZE, SHOWN = (1100, 1300), (660, 780)


def frames(page: Page, over: threading.Event) -> List[Tuple[Image.Image, float]]:
    """Pictures of the page until the run is over and once after it, with the seconds that each was shown."""
    taken: List[Tuple[Image.Image, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        file, last = Path(folder) / "frame.png", False
        while not last:
            last, begin = over.is_set(), time.monotonic()
            page.picture(file)
            picture = (
                Image.open(io.BytesIO(file.read_bytes()))
                .convert("RGB")
                .resize(SHOWN, Image.Resampling.LANCZOS)
            )
            over.wait(max(0.0, EVERY_S - (time.monotonic() - begin)))
            taken.append((picture, time.monotonic() - begin))
    return taken


def main() -> None:
    """Runs the demo, and writes what the browser showed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("qjam", type=Path, help="the command, built")
    parser.add_argument("out", type=Path, help="the picture, a .webp")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Browser(Path(folder)) as browser:
        env = {**os.environ, "QJAM_RUNS": str(Path(folder) / "runs")}
        words = ["qjam", "demo", "--dashboard"]
        # The page shows where the program is.
        called = {"executable": options.qjam.resolve(), "cwd": folder, "env": env, "text": True}
        with subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, **called) as run:
            assert run.stderr is not None
            link = next(filter(None, (re.search(r"http://\S+", line) for line in run.stderr)))
            over = threading.Event()
            threading.Thread(
                target=lambda: (run.stderr and run.stderr.read(), over.set()), daemon=True
            ).start()
            taken = frames(browser.page(link.group(), *SIZE), over)
    pictures = [picture for picture, _ in taken]
    shown_ms = [round(1000 * seconds) for _, seconds in taken[:-1]] + [round(1000 * LAST_S)]
    pictures[0].save(
        options.out,
        save_all=True,
        append_images=pictures[1:],
        duration=shown_ms,
        loop=0,
        quality=60,
        method=4,
    )
    sys.stdout.write(f"{options.out}: {len(pictures)} frames, {options.out.stat().st_size / 1024:.0f} KiB\n")


if __name__ == "__main__":
    main()

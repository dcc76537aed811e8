"""Pages of the documentation site in a real browser, from a web server. `cargo xtask test --only site` builds the site and runs this."""

from __future__ import annotations

import functools
import http.server
import re
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Iterator, List, Tuple

import pytest
from events import HANG_S

SITE = Path(__file__).resolve().parents[2] / "target" / "site"
#: Beside the pages of the book; those of rustdoc are too many to open one by one, and alike.
RUSTDOC = ("rust/qjam/index.html", "rust/qjam/struct.Master.html", "rust/qjam_algos/index.html", "rust/qjam_config/index.html")

#: As in `test_pages.py`, which needs the package that this needs not.
FLAGS = """--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
--disable-component-update --disable-sync --enable-logging=stderr --virtual-time-budget=4000 --dump-dom""".split()


def shown_at(address: str, folder: Path, *more: str) -> Tuple[str, str]:
    """A page as a browser has it after its scripts have run, and what the browser complained about."""
    names = ("chromium", "chromium-browser", "google-chrome")
    browser = next(filter(None, map(shutil.which, names)), None)
    assert browser, f"none of {', '.join(names)} is installed; `cargo xtask setup` installs one"
    words = [browser, *FLAGS, f"--user-data-dir={folder / 'browser'}", *more, address]
    done = subprocess.run(words, capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0, done.stderr
    # Rustdoc fetches its fonts ahead in a way that a browser thinks little of.
    complaints = [line for line in done.stderr.splitlines() if ":CONSOLE" in line and " preload" not in line]
    return done.stdout, "\n".join(complaints)


def pages() -> List[str]:
    """All pages but those of rustdoc, and some of these."""
    found = (path.relative_to(SITE).as_posix() for path in sorted(SITE.rglob("*.html")))
    return [page for page in found if not page.startswith("rust/") and page not in ("404.html", "toc.html")] + list(RUSTDOC)


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Remembers what was not found, and prints nothing."""

    missing: List[str] = []

    def log_message(self, format: str, *args: object) -> None:
        pass

    def send_error(self, code: int, message: "str | None" = None, explain: "str | None" = None) -> None:
        self.missing.append(f"{code} {self.path}")
        super().send_error(code, message, explain)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    assert SITE.is_dir(), "there is no site; `cargo xtask site` builds it"
    handler = functools.partial(Quiet, directory=str(SITE))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.parametrize("page", pages())
def test_a_page_of_the_site_opens_without_a_complaint(page: str, address: str, tmp_path: Path) -> None:
    Quiet.missing.clear()
    text, complaints = shown_at(f"{address}/{page}", tmp_path)
    assert complaints == ""
    # Browsers ask for this by themselves.
    assert [gone for gone in Quiet.missing if "favicon.ico" not in gone] == []
    assert "<h1" in text


def test_the_front_page_has_the_program_and_the_commands(address: str, tmp_path: Path) -> None:
    page, _ = shown_at(f"{address}/index.html", tmp_path, "--window-size=1400,1000")
    # Words of code are coloured one by one.
    text = re.sub("</?(code|span)[^>]*>", "", page)
    for words in ("from qjam import Master", "qjam demo", "live.webp", "same bits"):
        assert words in text


def test_the_search_knows_every_page_of_the_book() -> None:
    index = "".join(path.read_text(encoding="utf-8") for path in SITE.glob("searchindex*.js"))
    for page in pages():
        if page.startswith("docs/book/"):
            assert page in index, page


def test_nothing_is_loaded_from_elsewhere() -> None:
    for page in pages():
        text = (SITE / page).read_text(encoding="utf-8")
        for mark in ('src="http', 'src="//', '<link rel="stylesheet" href="http'):
            assert mark not in text, f"{page} loads something from elsewhere"

"""Pages of runs in a real browser, without a network."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, Tuple

import numpy as np
import pytest
from events import HANG_S, wait_until

from qjam._find import worker

#: No sandbox, as root has none; nothing that would look for a network.
FLAGS = """--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
--disable-component-update --disable-sync --enable-logging=stderr --virtual-time-budget=4000 --dump-dom""".split()


def browser() -> str:
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next(filter(None, map(shutil.which, names)), None)
    assert found, f"none of {', '.join(names)} is installed; `cargo xtask setup` installs one"
    return found


def command(folder: Path, *args: str) -> "subprocess.CompletedProcess[str]":
    env = {**os.environ, "QJAM_RUNS": str(folder / "runs")}
    words = [str(worker()), *args]
    return subprocess.run(words, env=env, cwd=str(folder), capture_output=True, text=True, timeout=HANG_S)


def shown(page: Path, *more: str) -> Tuple[str, str]:
    """The page as a browser has it after its scripts have run, and what the browser complained about."""
    profile = f"--user-data-dir={page.parent / 'browser'}"
    words = [browser(), *FLAGS, profile, *more, page.as_uri()]
    done = subprocess.run(words, capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0, done.stderr
    return done.stdout, "\n".join(line for line in done.stderr.splitlines() if ":CONSOLE" in line)


def asked(page: Path, script: str) -> Any:
    """What a script says that runs after those of the page."""
    tail = f"<script>document.body.dataset.said = JSON.stringify((() => {{ {script} }})());</script></body>"
    other = page.with_name("asked.html")
    other.write_text(page.read_text(encoding="utf-8").replace("</body>", tail), encoding="utf-8")
    text, complaints = shown(other)
    assert not complaints
    said = re.search(r'data-said="([^"]*)"', text)
    assert said, text[-2000:]
    return json.loads(html.unescape(said.group(1)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    np.save(str(folder / "x.npy"), np.sin(np.arange(60_000.0) * 0.37).reshape(20_000, 3))
    fitted = command(folder, "fit", "kmeans", "x.npy", "--k", "3", "--workers", "proc:2", "--out", "a.model")
    assert fitted.returncode == 0, fitted.stderr
    return folder


@pytest.fixture(scope="module")
def page(folder: Path) -> Path:
    made = command(folder, "report", "--out", "page.html")
    assert made.returncode == 0, made.stderr
    return folder / "page.html"


@pytest.mark.parametrize("size", ["1200,900", "390,800"])
@pytest.mark.parametrize("theme", ["", "--force-dark-mode"])
def test_a_page_opens_without_a_complaint(page: Path, size: str, theme: str) -> None:
    more = [flag for flag in (f"--window-size={size}", theme) if flag]
    text, complaints = shown(page, *more)
    assert complaints == ""
    for expected in ("finished", "Time of a round", "Workers", "centres moved", "proc:1"):
        assert expected in text


def test_all_charts_are_drawn_and_fit_their_page(page: Path) -> None:
    drawn = asked(
        page,
        """
        const blank = (c) => !c.getContext("2d").getImageData(0, 0, c.width, c.height).data.some((byte) => byte);
        const all = [...document.querySelectorAll("canvas")];
        return { count: all.length, blank: all.filter(blank).length,
                 wide: document.documentElement.scrollWidth > innerWidth };
        """,
    )
    assert drawn == {"count": 4, "blank": 0, "wide": False}


def test_dragging_zooms_keys_move_and_a_double_click_shows_all_again(page: Path) -> None:
    axis = asked(
        page,
        """
        const canvas = document.querySelectorAll("canvas")[1];
        canvas.setPointerCapture = () => {};
        const box = canvas.getBoundingClientRect();
        const pointer = (type, share) => canvas.dispatchEvent(new PointerEvent(type, { clientX: box.left + box.width * share, clientY: box.top + 50 }));
        const pixels = () => canvas.toDataURL();
        const whole = pixels();
        pointer("pointermove", 0.5);
        pointer("pointerdown", 0.4); pointer("pointermove", 0.6); pointer("pointerup", 0.6);
        const zoomed = pixels();
        canvas.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight" }));
        const moved = pixels();
        canvas.dispatchEvent(new MouseEvent("dblclick"));
        const again = pixels();
        document.getElementById("by-round").click();
        const rounds = document.querySelectorAll("canvas")[1].toDataURL();
        return { zooms: zoomed !== whole, moves: moved !== zoomed, resets: again === whole, rounds: rounds !== whole };
        """,
    )
    assert axis == {"zooms": True, "moves": True, "resets": True, "rounds": True}


def test_notes_are_searched(page: Path) -> None:
    found = asked(
        page,
        """
        const rows = () => document.querySelectorAll("#events tr").length - 1;
        const all = rows();
        const field = document.getElementById("search");
        field.value = "proc:1 ready"; field.oninput();
        const some = rows();
        field.value = "nothing like it"; field.oninput();
        return { all: all > 3, some, none: rows() };
        """,
    )
    assert found == {"all": True, "some": 1, "none": 0}


def test_the_page_of_a_killed_run_opens_and_says_so(folder: Path) -> None:
    runs = folder / "killed"
    env = {**os.environ, "QJAM_RUNS": str(runs)}
    words = [str(worker()), "bench", "rounds", "--workers", "proc:1", "--rounds", "100000", "--sleep-ms", "5"]
    with subprocess.Popen(words, env=env, cwd=str(folder), stdout=subprocess.DEVNULL) as process:

        def so_far() -> Dict[str, Any]:
            run = next(runs.glob("*.run"), None)
            told: Dict[str, Any] = {"rounds": 0}
            return told if run is None else json.loads(command(folder, "show", str(run), "--json").stdout) or told

        try:
            wait_until(lambda: so_far()["rounds"] >= 5 and so_far()["executable"], "rounds, and the executable's hash")
        finally:
            process.send_signal(signal.SIGKILL)
    (run,) = runs.glob("*.run")
    facts = so_far()
    made = command(folder, "report", str(run), "--out", "killed.html")
    assert made.returncode == 0, made.stderr
    shown_page = folder / "killed.html"
    text, complaints = shown(shown_page)
    assert complaints == "" and "its file has no end" in text
    assert facts["executable"] in text and facts["version"] in text and len(facts["executable"]) == 64
    said = asked(
        shown_page,
        """
        const rows = [...document.querySelectorAll("#workers tr")].map((row) => [...row.cells].map((cell) => cell.innerText));
        return { state: document.getElementById("state").innerText, workers: rows.slice(1).map((row) => row[0]) };
        """,
    )
    assert said == {"state": "killed", "workers": ["proc:0"]}


def test_what_a_run_file_says_is_shown_and_not_run(folder: Path) -> None:
    hostile = "</script><script>document.title='taken'</script><img src=x onerror=document.title='taken'>"
    program = """
import sys, qjam
with qjam.Master("local:1", progress=False) as m:
    m.run(lambda _, chunk: sum(chunk), None, [1, 2, 3])
    m.record_metric(sys.argv[1][:60], 1.0)
    raise ValueError(sys.argv[1])
"""
    path = os.pathsep.join(part for part in sys.path if part)
    env = {**os.environ, "QJAM_RUNS": str(folder / "runs"), "PYTHONPATH": path}
    words = [sys.executable, "-c", program, hostile]
    ended = subprocess.run(words, env=env, cwd=str(folder), capture_output=True, text=True, timeout=HANG_S)
    assert "ValueError" in ended.stderr
    made = command(folder, "report", "--out", "hostile.html")
    assert made.returncode == 0, made.stderr
    text, complaints = shown(folder / "hostile.html")
    assert complaints == "" and "<title>qjam run " in text and "<img" not in text
    assert text.count(html.escape("</script><script>", quote=False)) >= 3, "command, metric and error show it"

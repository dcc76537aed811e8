"""The live page in a real browser: who gets it, what it shows, and what it costs the browser."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Dict, Iterator, List, Optional, Set, Tuple
from urllib.parse import urlsplit

import pytest
from devtools import REBOUND, Browser
from events import HANG_S, wait_until
from growing import GrowingRun

import qjam
from qjam import Master
from qjam._find import worker


def listening(pid: Optional[int] = None) -> Set[Tuple[str, int]]:
    """Addresses and ports on which a process listens."""
    folder, inodes = Path(f"/proc/{pid or os.getpid()}/fd"), set()
    for entry in folder.iterdir():
        with contextlib.suppress(OSError):
            found = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(entry))
            if found:
                inodes.add(found.group(1))
    found_ports = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            cells = line.split()
            if cells[3] == "0A" and cells[9] in inodes:
                address, port = cells[1].split(":")
                found_ports.add((address, int(port, 16)))
    return found_ports


LOOPBACK = "0100007F"


def get(link: str, path: Optional[str] = None, method: str = "GET", **headers: str) -> Tuple[int, str]:
    """Status and text of an answer."""
    parts = urlsplit(link)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=HANG_S)
    try:
        connection.request(method, parts.path if path is None else path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@contextlib.contextmanager
def watched(folder: Path, run: str) -> Iterator[Tuple[str, int]]:
    """The link of ``qjam watch``, and its process."""
    env = {**os.environ, "QJAM_RUNS": str(folder / "runs")}
    words = [str(worker()), "watch", run]
    with subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip(), process.pid
        finally:
            process.kill()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("browser")) as browser:
        yield browser


@pytest.fixture
def grown(tmp_path: Path) -> Iterator[GrowingRun]:
    run = GrowingRun(tmp_path / "a.run", 8, 10_000)
    run.grow(200)
    yield run
    run.close()


def add(params: object, chunk: List[int]) -> int:
    return sum(chunk)


def test_views_fill_while_a_worker_is_killed_and_the_end_is_told(browser: Browser, tmp_path: Path) -> None:
    with Master("proc:2", run_folder=tmp_path, progress=False, dashboard=True) as m:
        assert m.dashboard is not None
        assert listening() == {(LOOPBACK, urlsplit(m.dashboard).port)}
        page = browser.page(m.dashboard)
        page.until("live.data")
        for n in range(20):
            m.run(add, None, [n, n + 1, n + 2])
            m.record_metric("loss", 1.0 / (1 + n))
        page.until("live.data.facts.counts.finished >= 20 && live.data.series.length === 1")
        # Processes have memory, and the page is told of it after it was opened.
        page.until("live.data.lanes.lanes.every((lane) => 0 < lane.memory_bytes && lane.memory_bytes <= lane.memory_most_bytes)")
        victim = m.workers[1].pid
        assert victim is not None
        os.kill(victim, signal.SIGKILL)
        for n in range(20):
            m.run(add, None, [n, n + 1, n + 2])
        page.until("live.data.lanes.lanes.some((lane) => lane.lost > 0)")
        page.until("document.getElementById('workers').innerText.includes('proc:1')")
        blank = """[...document.querySelectorAll("canvas")].map((c) =>
            c.toDataURL() === Object.assign(document.createElement("canvas"), { width: c.width, height: c.height }).toDataURL())"""
        assert page.until(f"{blank}.length === 4 && {blank}") == [False] * 4
        link = m.dashboard
    page.until("live.data.facts.state === 'finished' && document.getElementById('state').innerText === 'finished'")
    assert page.complaints() == []
    assert m.dashboard is None and listening() == set()
    with pytest.raises(ConnectionRefusedError):
        get(link)
    page.close()


def test_the_token_opens_the_page_and_foreign_hosts_and_origins_do_not(browser: Browser, grown: GrowingRun, tmp_path: Path) -> None:
    with watched(tmp_path, str(grown.path)) as (link, pid):
        port = urlsplit(link).port
        assert listening(pid) == {(LOOPBACK, port)}
        status, text = get(link)
        assert status == 200 and "<title>qjam run a</title>" in text
        assert "src=" not in text and "http://" not in text.replace(link, "")
        assert get(link, "/")[0] == 403 and get(link, "/events")[0] == 403
        assert get(link, urlsplit(link).path[:-2] + "0/")[0] == 403
        assert get(link, Host=f"{REBOUND}:{port}")[0] == 403
        assert get(link, Origin="http://evil.example")[0] == 403
        assert get(link, urlsplit(link).path + "events", Origin="null")[0] == 403
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "HEAD"):
            assert get(link, method=method)[0] == 405

        # The same in a browser: without the token, under a name that leads here, and from a page of another origin.
        page = browser.page(f"http://127.0.0.1:{port}/")
        assert "has no token" in page.until("document.body.innerText")
        page.go(link.replace("127.0.0.1", REBOUND))
        assert "for another host" in page.until("document.body.innerText")
        handler = http.server.BaseHTTPRequestHandler
        with serving(type("Empty", (handler,), {"do_GET": empty, "log_message": silent})) as other:
            page.go(f"http://127.0.0.1:{other}/")
            refused = page.says(
                f"""new Promise((tell) => {{
                    const source = new EventSource("{link}events");
                    source.onopen = () => tell("opened");
                    source.onmessage = () => tell("message");
                    source.onerror = () => tell(source.readyState === EventSource.CLOSED ? "refused" : "again");
                }})"""
            )
            assert refused == "refused"
        page.go(link)
        page.until("live.data && live.data.facts.id === 'a'")
        page.close()


def empty(handler: http.server.BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "0")
    handler.end_headers()


def silent(*_: object) -> None:
    pass


@contextlib.contextmanager
def serving(handler: type) -> Iterator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def test_the_page_works_below_the_prefix_of_a_proxy(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Proxy(http.server.BaseHTTPRequestHandler):
        """Passes on what is below /hub/proxy/PORT, with the headers that came, as notebook servers do."""

        def do_GET(self) -> None:
            found = re.fullmatch(r"/hub/proxy/(\d+)(/.*)", self.path)
            assert found
            connection = http.client.HTTPConnection("127.0.0.1", int(found.group(1)), timeout=HANG_S)
            headers: Dict[str, str] = dict(self.headers.items())
            connection.request("GET", found.group(2), headers=headers)
            answer = connection.getresponse()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                self.send_header(name, value)
            self.end_headers()
            while True:
                piece = answer.read1(1 << 16)
                if not piece:
                    break
                self.wfile.write(piece)
                self.wfile.flush()

        def log_message(self, *_: object) -> None:
            pass

    with serving(Proxy) as port:
        monkeypatch.setenv("QJAM_DASHBOARD_LINK", f"http://{REBOUND}:{port}/hub/proxy/{{port}}/")
        with Master("local:1", run_folder=tmp_path, progress=False, dashboard=True) as m:
            m.run(add, None, [1, 2, 3])
            assert m.dashboard is not None and m.dashboard.startswith(f"http://{REBOUND}:{port}/hub/proxy/")
            page = browser.page(m.dashboard)
            page.until("live.data && live.data.facts.counts.finished === 1")
        page.until("live.data.facts.state === 'finished'")
        assert page.complaints() == []
        page.close()


def test_pausing_stops_the_page_and_dragging_zooms_it(browser: Browser, grown: GrowingRun, tmp_path: Path) -> None:
    with watched(tmp_path, str(grown.path)) as (link, _):
        page = browser.page(link)
        page.until("live.data && live.data.facts.counts.finished === 200")
        grown.grow(100)
        page.until("live.data.facts.counts.finished === 300")
        # Zoom: the range is fixed, also while the run goes on; the keys move it; Escape goes back to all of it.
        box = page.says("(() => { const b = document.querySelectorAll('canvas')[1].getBoundingClientRect(); return [b.left, b.top, b.width]; })()")
        page.drag(box[0] + box[2] * 0.4, box[1] + 60, box[0] + box[2] * 0.6)
        ranged = "[page_range.from, page_range.to]".replace("page_range", "live.page.drawn.range")
        zoomed = page.until(f"!live.page.drawn.range.tail && {ranged}")
        grown.grow(100)
        page.until("live.data.facts.counts.finished === 400")
        assert page.says(ranged) == zoomed
        page.says("document.querySelectorAll('canvas')[1].focus()")
        page.key("ArrowRight")
        moved = page.says(ranged)
        assert moved[0] > zoomed[0] and moved[1] - moved[0] == pytest.approx(zoomed[1] - zoomed[0])
        page.key("Escape")
        assert page.says("live.page.drawn.range.isWhole")
        # Hover tells what is there.
        page.call("Input.dispatchMouseEvent", type="mouseMoved", x=box[0] + box[2] * 0.3, y=box[1] + 60)
        assert page.until("!document.getElementById('tip').hidden && document.getElementById('tip').innerText").startswith("round")
        # Pause: nothing more comes until it goes on, and then all of it.
        page.key("p")
        assert page.until("document.getElementById('link').innerText") == "paused"
        painted = page.says("live.page.drawn.painted")
        grown.grow(100)
        assert page.says("new Promise((go) => setTimeout(() => go(live.data.facts.counts.finished), 600))") == 400
        assert page.says("live.page.drawn.painted") == painted
        page.says("document.getElementById('pause').click()")
        page.until("live.data.facts.counts.finished === 500 && document.getElementById('link').innerText === 'live'")
        assert page.complaints() == []
        page.close()


def test_a_page_of_a_thousand_workers_keeps_painting_while_they_do_hundreds_of_rounds(browser: Browser, tmp_path: Path) -> None:
    run = GrowingRun(tmp_path / "many.run", 1000, 10_000)
    run.grow(300)
    is_over = threading.Event()

    def grow() -> None:
        # A hundred rounds a second.
        while not is_over.wait(0.1):
            run.grow(10)

    thread = threading.Thread(target=grow)
    with watched(tmp_path, str(run.path)) as (link, _):
        thread.start()
        try:
            page = browser.page(link)
            page.until("live.data && live.data.lanes.lanes.length === 1000")
            # It paints again and again, and each time there is something new to paint.
            for _ in range(5):
                painted, messages, finished = page.says(
                    "[live.page.drawn.painted, live.messages, live.data.facts.counts.finished]"
                )
                page.until(
                    f"live.page.drawn.painted > {painted} && live.messages > {messages}"
                    f" && live.data.facts.counts.finished > {finished}"
                )
            assert page.complaints() == []
            page.close()
        finally:
            is_over.set()
            thread.join()
            run.close()


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("size", [(1200, 900), (390, 800)])
def test_the_page_fits_desks_and_phones_in_both_themes(
    browser: Browser, grown: GrowingRun, tmp_path: Path, size: Tuple[int, int], dark: bool
) -> None:
    folder = Path(os.environ.get("QJAM_TEST_PICTURES", str(tmp_path)))
    with watched(tmp_path, str(grown.path)) as (link, _):
        page = browser.page(link, *size, dark=dark)
        page.until("live.data && live.page.drawn.painted > 3")
        assert page.says("document.documentElement.dataset.theme") == ("dark" if dark else "light")
        assert not page.says("document.documentElement.scrollWidth > innerWidth")
        assert page.says("[...document.querySelectorAll('button')].every((b) => b.hidden || b.innerText || b.ariaLabel)")
        page.picture(folder / f"live-{size[0]}-{'dark' if dark else 'light'}.png")
        assert page.complaints() == []
        page.close()


def test_a_command_serves_the_page_of_its_run_as_long_as_it_runs(tmp_path: Path) -> None:
    env = {**os.environ, "QJAM_RUNS": str(tmp_path / "runs")}
    words = [str(worker()), "bench", "rounds", "--workers", "local:1", "--rounds", "100000", "--sleep-ms", "5"]
    process = subprocess.Popen(
        [*words, "--dashboard"], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    with process:
        try:
            assert process.stderr is not None
            link = next(line for line in process.stderr if "dashboard: " in line).split("dashboard: ")[1].strip()
            assert listening(process.pid) == {(LOOPBACK, urlsplit(link).port)}
            status, text = get(link)
            (run,) = (tmp_path / "runs").glob("*.run")
            assert status == 200 and f"<title>qjam run {run.stem}</title>" in text
        finally:
            process.kill()
    wait_until(lambda: is_gone(link), "the port's end")


def is_gone(link: str) -> bool:
    """Whether nobody answers any more."""
    try:
        get(link)
    except OSError:
        return True
    return False


def test_nothing_listens_without_a_dashboard_and_a_killed_master_takes_its_port_with_it(tmp_path: Path) -> None:
    with Master("proc:1", run_folder=tmp_path, progress=False) as m:
        m.run(add, None, [1])
        assert m.dashboard is None and listening() == set()
    program = """
import sys, qjam
m = qjam.Master("proc:1", run_folder=sys.argv[1], progress=False, dashboard=True)
print(m.dashboard, flush=True)
sys.stdin.read()
"""
    path = os.pathsep.join(part for part in sys.path if part)
    words = [sys.executable, "-c", program, str(tmp_path)]
    env = {**os.environ, "PYTHONPATH": path}
    with subprocess.Popen(words, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        link = process.stdout.readline().strip()
        assert listening(process.pid) == {(LOOPBACK, urlsplit(link).port)}
        assert get(link)[0] == 200
        process.kill()
        process.wait(HANG_S)

    wait_until(lambda: is_gone(link), "the port's end")


def test_a_dashboard_without_a_run_file_is_refused() -> None:
    with pytest.raises(ValueError, match="run file"):
        Master("local:1", run_folder=False, progress=False, dashboard=True)
    assert qjam is not None

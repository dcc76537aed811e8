"""A real browser that tests talk to over a pipe, in the protocol of its developer tools."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, List, Optional

from events import HANG_S

#: No sandbox, as root has none; nothing that would look for a network. A name that leads to this machine, as in DNS rebinding.
FLAGS = """--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
--disable-component-update --disable-sync --disable-dev-shm-usage --remote-debugging-pipe
--disable-background-timer-throttling --disable-renderer-backgrounding --disable-backgrounding-occluded-windows""".split()
REBOUND = "rebound.example"
#: Gives a program two descriptors as 3 and 4, and becomes it.
LAUNCH = """
import fcntl, os, sys
read, write = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3]]
os.dup2(read, 3)
os.dup2(write, 4)
os.execvp(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """A browser with a profile of its own; ends with the ``with`` block."""

    def __init__(self, folder: Path) -> None:
        names = ("chromium", "chromium-browser", "google-chrome")
        found = next(filter(None, map(shutil.which, names)), None)
        assert found, f"none of {', '.join(names)} is installed; `cargo xtask setup` installs one"
        ours, theirs = os.pipe(), os.pipe()
        words = [found, *FLAGS, f"--user-data-dir={folder / 'browser'}", f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1"]
        # The browser reads descriptor 3 and writes 4.
        launch = [sys.executable, "-c", LAUNCH, str(ours[0]), str(theirs[1]), *words, "about:blank"]
        self.process = subprocess.Popen(launch, pass_fds=(ours[0], theirs[1]), stderr=subprocess.DEVNULL)
        os.close(ours[0])
        os.close(theirs[1])
        self.write, self.read = ours[1], theirs[0]
        self.buffer, self.number = b"", 0
        self.events: List[Dict[str, Any]] = []

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(HANG_S)
        os.close(self.write)
        os.close(self.read)

    def call(self, method: str, session: Optional[str] = None, **params: Any) -> Dict[str, Any]:
        """Asks for something and waits for the answer."""
        self.number += 1
        number = self.number
        message: Dict[str, Any] = {"id": number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        while True:
            found = self._next()
            if found.get("id") == number:
                assert "error" not in found, (method, found["error"])
                result: Dict[str, Any] = found["result"]
                return result
            self.events.append(found)

    def _next(self) -> Dict[str, Any]:
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.read], [], [], HANG_S)
            piece = os.read(self.read, 1 << 20) if ready else b""
            assert piece, "the browser says nothing more"
            self.buffer += piece
        line, self.buffer = self.buffer.split(b"\0", 1)
        message: Dict[str, Any] = json.loads(line)
        return message

    def page(self, url: str, width: int = 1200, height: int = 900, dark: bool = False) -> Page:
        return Page(self, url, width, height, dark)


class Page:
    """A tab of the browser."""

    def __init__(self, browser: Browser, url: str, width: int, height: int, dark: bool) -> None:
        self.browser = browser
        self.target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.resize(width, height)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.go(url)

    def call(self, method: str, **params: Any) -> Dict[str, Any]:
        return self.browser.call(method, self.session, **params)

    def resize(self, width: int, height: int) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)

    def go(self, url: str) -> None:
        self.call("Page.navigate", url=url)
        self.until(f"location.href !== 'about:blank' && document.readyState === 'complete' || {json.dumps(url)} === 'about:blank'")

    def says(self, script: str) -> Any:
        """The value of an expression; promises are waited for."""
        found = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def until(self, script: str) -> Any:
        """Returns the value of an expression once it is one that counts."""
        ends_by = time.monotonic() + HANG_S
        while True:
            value = self.says(script)
            if value:
                return value
            assert time.monotonic() < ends_by, f"{script} is never so: {self.says('document.body.innerText.slice(0, 2000)')}"
            time.sleep(0.02)

    def drag(self, x: float, y: float, to: float) -> None:
        mouse = {"button": "left", "clickCount": 1}
        self.call("Input.dispatchMouseEvent", type="mousePressed", x=x, y=y, **mouse)
        for share in (0.3, 0.7, 1.0):
            self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x + (to - x) * share, y=y, buttons=1)
        self.call("Input.dispatchMouseEvent", type="mouseReleased", x=to, y=y, **mouse)

    def key(self, key: str) -> None:
        more = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def picture(self, path: Path) -> None:
        data = self.call("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(data))

    def complaints(self) -> List[str]:
        """What the browser had against the page so far."""
        self.says("1")
        ours = [event for event in self.browser.events if event.get("sessionId") == self.session]
        names = ("Runtime.exceptionThrown", "Log.entryAdded")
        return [json.dumps(event["params"]) for event in ours if event.get("method") in names]

    def close(self) -> None:
        self.browser.call("Target.closeTarget", targetId=self.target)

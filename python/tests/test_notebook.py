"""Notebooks: the example runs from top to bottom; an interrupt and a restart leave nothing behind."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple, cast

import nbformat
import pytest
from events import HANG_S, is_there, wait_until
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient

EXAMPLE = Path(__file__).resolve().parent.parent.parent / "examples" / "python" / "first_steps.ipynb"


def test_the_example_notebook_runs_from_top_to_bottom(tmp_path: Path) -> None:
    notebook = cast(Any, nbformat).read(str(EXAMPLE), as_version=4)
    NotebookClient(
        notebook, timeout=HANG_S, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    shown = [
        output["data"]["text/plain"]
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if output["output_type"] == "execute_result"
    ]
    assert "90" in shown and "50" in shown and "100" in shown and "1.75" in shown


class Kernel:
    """A kernel without anything in front of it."""

    def __init__(self) -> None:
        self.manager = KernelManager(kernel_name="python3")
        self.manager.start_kernel()
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=HANG_S)

    def begin(self, text: str) -> str:
        return str(self.client.execute(text))

    def end(self, message: str, timeout: float = HANG_S) -> Tuple[str, Dict[str, Any]]:
        """What a cell has printed, and how it ended."""
        printed: List[str] = []
        deadline = time.monotonic() + timeout
        while True:
            got = self.client.get_iopub_msg(timeout=max(0.1, deadline - time.monotonic()))
            if got["parent_header"].get("msg_id") != message:
                continue
            if got["msg_type"] == "stream" and got["content"]["name"] == "stdout":
                printed.append(got["content"]["text"])
            if got["msg_type"] == "status" and got["content"]["execution_state"] == "idle":
                break
        while True:
            reply = self.client.get_shell_msg(timeout=max(0.1, deadline - time.monotonic()))
            if reply["parent_header"].get("msg_id") == message:
                return "".join(printed), reply["content"]

    def run(self, text: str, timeout: float = HANG_S) -> str:
        printed, reply = self.end(self.begin(text), timeout)
        assert reply["status"] == "ok", reply
        return printed

    def shut_down(self) -> None:
        self.client.stop_channels()
        if self.manager.is_alive():
            self.manager.shutdown_kernel(now=True)


@pytest.fixture
def kernel() -> Iterator[Kernel]:
    started = Kernel()
    yield started
    started.shut_down()


def descendants(of: int) -> List[int]:
    """Processes that come from a process, however many steps down."""
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                status = Path("/proc", entry, "stat").read_text()
            except OSError:
                continue
            parents[int(entry)] = int(status.rpartition(")")[2].split()[1])
    found = [of]
    for process in found:
        found.extend(child for child, parent in parents.items() if parent == process)
    return found[1:]


def alive(process: int) -> bool:
    try:
        return Path("/proc", str(process), "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


ENDLESS = """
import time
def endless(params, chunk):
    open({!r}, "w").close()
    while True:
        time.sleep(0.01)
m.run(endless, None, [1, 2, 3])
"""


@pytest.mark.parametrize("workers", ["local:2", "proc:2"])
def test_an_interrupt_gives_the_prompt_back_and_the_next_cell_works(
    kernel: Kernel, workers: str, tmp_path: Path
) -> None:
    kernel.run(
        "from qjam import Master\nm = Master({!r})\nprint(m.run(lambda p, c: sum(c), None, [1, 2]))".format(
            workers
        )
    )
    began = str(tmp_path / "began")
    message = kernel.begin(ENDLESS.format(began))
    wait_until(is_there(began), "the round")
    kernel.manager.interrupt_kernel()
    _, reply = kernel.end(message)
    assert reply["status"] == "error" and reply["ename"] == "KeyboardInterrupt"
    assert kernel.run("print(m.run(lambda p, c: sum(c), None, [1, 2, 3]))") == "6\n"


@pytest.mark.parametrize("how", ["restart", "kill"])
@pytest.mark.parametrize("workers", ["local:2", "proc:2"])
def test_a_restart_leaves_no_process(kernel: Kernel, workers: str, how: str, tmp_path: Path) -> None:
    kernel.run(
        "from qjam import Master\nm = Master({!r})\nprint(m.run(lambda p, c: 1, None, [1, 2]))".format(
            workers
        )
    )
    began = str(tmp_path / "began")
    kernel.begin(ENDLESS.format(began))
    wait_until(is_there(began), "the round")
    process = int(kernel.manager.provisioner.pid)  # type: ignore[union-attr]
    left = descendants(process)
    assert len(left) >= 2
    if how == "restart":
        kernel.manager.restart_kernel(now=False)
    else:
        os.kill(process, 9)
    wait_until(lambda: not any(alive(p) for p in left), "the end of all processes")

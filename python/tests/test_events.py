"""What commands tell programs about long work: one JSON object in a line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any, Dict, List, Tuple

from events import HANG_S, wait_until

from qjam._find import worker


def environment(folder: Path) -> Dict[str, str]:
    return {**os.environ, "QJAM_RUNS": str(folder / "runs")}


def told(folder: Path, *words: str) -> List[Dict[str, Any]]:
    """The objects that a command prints; nothing else may be on its standard output."""
    done = subprocess.run(
        [str(worker()), *words], env=environment(folder), cwd=str(folder), capture_output=True, text=True, timeout=HANG_S
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_demo_tells_every_evaluation_the_kill_and_that_the_bits_are_equal(tmp_path: Path) -> None:
    events = told(tmp_path, "demo", "--json", "--patches", "600", "--evaluations", "12")
    kinds = [event["event"] for event in events]
    assert kinds[0] == "began" and kinds[-1] == "equal" and kinds.count("evaluation") >= 10
    assert [worker["name"] for worker in events[0]["workers"]] == ["proc:0", "proc:1"]
    killed = next(event for event in events if event["event"] == "kill")
    assert killed["pid"] in [worker["pid"] for worker in events[0]["workers"]]
    assert next(event for event in events if event["event"] == "trained")["hash"] == events[-1]["hash"]


def test_a_fit_tells_its_steps_on_standard_error_and_its_result_on_standard_output(tmp_path: Path) -> None:
    rows = "".join(f"{n % 7},{n % 11},{n % 13}\n" for n in range(4000))
    (tmp_path / "x.csv").write_text(rows)

    def events(*words: str, exit_code: int = 0) -> Tuple[str, List[Dict[str, Any]]]:
        done = subprocess.run(
            [str(worker()), *words, "--events"],
            env=environment(tmp_path), cwd=str(tmp_path), capture_output=True, text=True, timeout=HANG_S,
        )  # fmt: skip
        assert done.returncode == exit_code, done.stderr
        return done.stdout, [json.loads(line) for line in done.stderr.splitlines()]

    fit = ["fit", "kmeans", "x.csv", "--k", "3", "--iterations", "4", "--tolerance", "0", "--out", "a.model", "--workers", "proc:2"]
    stdout, told = events(*fit, "--json")
    result = json.loads(stdout)
    kinds = [event["event"] for event in told]
    assert kinds[:2] == ["began", "read"] and [kind for kind in kinds if kind != "note"][-1] == "saved"
    assert told[0]["learner"] == "kmeans" and [w["name"] for w in told[0]["workers"]] == ["proc:0", "proc:1"]
    assert (tmp_path / "runs" / f"{told[0]['run']}.run").exists()
    assert (told[1]["rows"], told[1]["columns"]) == (4000, 3)
    steps = [event for event in told if event["event"] == "step"]
    assert [step["step"] for step in steps] == list(range(1, result["iterations"] + 1))
    assert {step["steps_max"] for step in steps} == {4} and {step["workers"] for step in steps} == {2}
    assert steps[0]["seconds_left_max"] is None
    assert all(step["seconds_left_max"] > 0 for step in steps[1:] if step["step"] < 4)
    saved = next(event for event in told if event["event"] == "saved")
    assert (saved["hash"], saved["model"]) == (result["hash"], "a.model")

    stdout, told = events("predict", "a.model", "x.csv", "--workers", "local:1")
    assert len(stdout.splitlines()) == 4000 and [event["event"] for event in told] == ["read", "began"]
    stdout, told = events("predict", "a.model", "x.csv", "--transform", "--out", "distances.npy")
    chunks = told[-1]["steps_max"]
    assert [event["step"] for event in told[1:]] == list(range(1, chunks + 1))
    stdout, told = events("evaluate", "a.model", "x.csv", "--workers", "local:1", "--json")
    assert json.loads(stdout)["rows"] == 4000
    assert [event["event"] for event in told if event["event"] != "note"] == ["began", "read", "evaluated"]

    # The error that ends it is the last event.
    stdout, told = events("predict", "a.model", "no such file.csv", exit_code=1)
    assert stdout == "" and told[-1]["event"] == "failed" and "no such file.csv" in told[-1]["error"]


def test_resume_and_replay_tell_what_came_of_it(tmp_path: Path) -> None:
    words = [str(worker()), "bench", "rounds", "--workers", "local:1", "--rounds", "100000", "--sleep-ms", "5"]
    with subprocess.Popen(words, env=environment(tmp_path), cwd=str(tmp_path), stdout=subprocess.DEVNULL) as process:
        show = ["show", "--json"]

        def has_rounds() -> bool:
            runs = list((tmp_path / "runs").glob("*.run"))
            return bool(runs) and told(tmp_path, *show)[0]["rounds"] >= 5

        wait_until(has_rounds, "a few rounds")
        process.send_signal(signal.SIGKILL)
    killed = told(tmp_path, *show)[0]
    assert killed["state"] == "killed"
    done = told(tmp_path, "bench", "rounds", "--workers", "local:1", "--rounds", "5", "--json")
    assert done[0]["doubles"] == 8
    replayed = told(tmp_path, "replay", "last", "--json")
    assert replayed[0]["equal"] and replayed[0]["compared"] == replayed[0]["rounds"] == 10
    with subprocess.Popen(
        [str(worker()), "resume", killed["id"], "--json"], env=environment(tmp_path), stdout=subprocess.PIPE, text=True
    ) as again:
        wait_until(lambda: len(list((tmp_path / "runs").glob("*.run"))) == 3, "the run that goes on")
        going_on = max((tmp_path / "runs").glob("*.run"))
        wait_until(lambda: told(tmp_path, "show", str(going_on), "--json")[0]["rounds"] > killed["rounds"], "its rounds")
        os.kill(told(tmp_path, "show", str(going_on), "--json")[0]["pid"], signal.SIGKILL)
        assert again.stdout is not None
        events = [json.loads(line) for line in again.stdout.read().splitlines()]
    assert [event["event"] for event in events] == ["resumed", "ended"]
    assert events[0]["from"] == killed["id"] and events[0]["recalled"] >= 5
    assert (events[1]["exit"], events[1]["signal"]) == (None, signal.SIGKILL)

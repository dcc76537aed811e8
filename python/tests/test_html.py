"""What notebooks show: tables and drawings in which every text is escaped and nothing runs."""

from __future__ import annotations

import xml.etree.ElementTree
from pathlib import Path
from typing import Any

import numpy as np
from events import wait_until

import qjam
from qjam import Master
from qjam.dataset import as_dataset
from qjam.learn import KMeans, Ridge

HOSTILE = "</svg><script>alert(1)</script><img src=x onerror=alert(1)>"


def parsed(html: str) -> xml.etree.ElementTree.Element:
    """The elements of a piece of HTML; one that is not closed, or a text that is not escaped, is refused."""
    root = xml.etree.ElementTree.fromstring(f"<html>{html}</html>")
    names = {element.tag for element in root.iter()}
    assert names <= {"html", "div", "b", "table", "tr", "th", "td", "a", "code", "svg", "rect", "polyline"}, names
    assert not [name for element in root.iter() for name in element.attrib if name.startswith("on")]
    return root


def text(root: xml.etree.ElementTree.Element) -> str:
    return " ".join(root.itertext())


def test_a_master_shows_workers_rounds_numbers_and_its_link(tmp_path: Path) -> None:
    with Master("local:2", run_folder=tmp_path, progress=False, dashboard=True) as m:
        for n in range(5):
            m.run(lambda params, chunk: sum(chunk), None, [1, 2, 3, n])
            m.record_metric(HOSTILE[:60], 1.0 / (1 + n))
        # What happens is in the run file a moment later.
        wait_until(lambda: "5 finished" in text(parsed(m._repr_html_())), "the last round in the run file")
        root = parsed(m._repr_html_())
        assert len(root.findall("svg")) >= 2 and root.findall(".//polyline")
        assert "5 finished" in text(root) and "1 of 1" in text(root) and "</svg><script>" in text(root)
        assert [link.attrib["href"] for link in root.iter("a")] == [m.dashboard]
    assert "closed" in text(parsed(m._repr_html_())) and not parsed(m._repr_html_()).findall("svg")
    with Master("local:1", run_folder=False, progress=False) as m:
        assert "1 workers" in text(parsed(m._repr_html_())), "also without a run file"


def test_a_report_shows_where_the_time_went() -> None:
    with Master("inproc:1", progress=False) as m:
        m.run(lambda params, chunk: sum(chunk), None, [1, 2, 3])
        report = m.last_round
    assert report is not None
    root = parsed(report._repr_html_())
    assert len(root.findall("svg/rect")) == 3 and "worker" in text(root)


def test_a_submitted_round_shows_its_state_without_being_waited_for(tmp_path: Path) -> None:
    gate = tmp_path / "gate"

    def behind(gate: str, chunk: Any) -> int:
        import os
        import time

        while not os.path.exists(gate):
            time.sleep(0.001)
        return len(chunk)

    def fails(text: str, chunk: Any) -> int:
        raise ValueError(text)

    with Master("local:1", run_folder=False, progress=False) as m:
        waiting = m.submit(behind, str(gate), [1, 2, 3])
        root = parsed(waiting._repr_html_())
        assert "running" in text(root) and not root.findall("svg")
        gate.touch()
        assert waiting.result() == 3
        root = parsed(waiting._repr_html_())
        assert "done" in text(root) and "not waited" not in text(root) and len(root.findall("svg/rect")) == 3

        unread = m.submit(behind, str(gate), [1])
        wait_until(unread.done, "the end of a round")
        assert "done, not waited for" in text(parsed(unread._repr_html_()))

        failed = m.submit(fails, HOSTILE, [1])
        assert failed.wait()
        assert "failed: " in text(parsed(failed._repr_html_()))
        other = tmp_path / "other gate"
        cancelled = m.submit(behind, str(other), [1])
        cancelled.cancel()
        other.touch()
        assert "cancelled" in text(parsed(cancelled._repr_html_()))


def test_states_show_their_number_and_what_makes_them() -> None:
    def step(params: int, chunk: Any, state: Any) -> int:
        state[0] += params
        return int(state[0])

    with Master("local:1", run_folder=False, progress=False) as m:
        held = m.hold(lambda chunk: [0], ["a", "b", HOSTILE])
        held.run(step, 5)
        said = text(parsed(held._repr_html_()))
        assert "states 3" in said and "<lambda>" in said and "local:1" in said
        held.release()
        parsed(held._repr_html_())
    parsed(held._repr_html_())


def test_a_data_set_shows_how_it_is_cut() -> None:
    data = as_dataset(np.zeros((1000, 3)))
    assert data is not None
    before = text(parsed(data._repr_html_()))
    assert "1000" in before and "slices" in before
    with Master("inproc:1", progress=False) as m:
        m.run(lambda params, chunk: len(chunk), None, data)
    assert "23.4 KiB" in text(parsed(data._repr_html_()))


def test_a_learner_shows_what_it_has_fitted_below_its_diagram() -> None:
    rows = np.random.default_rng(1).normal(size=(60, 3))
    made: Any = Ridge(alpha=0.5)
    assert "fitted" not in made._repr_html_().rsplit("</style>", 1)[-1].rsplit("</script>", 1)[-1].lower().replace("not fitted", "")
    fitted: Any = made.fit(rows, rows @ [1.0, 2.0, 3.0])
    for html in (fitted._repr_html_(), fitted._repr_mimebundle_()["text/html"]):
        table = html[html.rindex("<div><b>Ridge, fitted</b>") :]
        assert "coef_" in text(parsed(table)) and "3 of float64" in text(parsed(table))
    centres: Any = KMeans(n_clusters=2, random_state=0).fit(rows)
    assert "cluster_centers_" in centres._repr_html_()
    assert qjam is not None

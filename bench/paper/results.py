"""What was measured: kept in a file, so that pictures and page can be made again without measuring."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from variants import Round, Run


@dataclass
class Measured:
    """Of one variant: a run of so many rounds with H = 1, and runs to the target over H."""

    letter: str
    title: str
    is_same: bool
    has_h: bool
    split: Optional[Run] = None
    grid: list[Run] = field(default_factory=list)

    def best(self, target: float) -> Optional[Run]:
        """The run that was first at the target."""
        reached = [run for run in self.grid if math.isfinite(run.to_target(target))]
        return min(reached, key=lambda run: run.to_target(target), default=None)

    def at(self, h: float) -> Optional[Run]:
        """The run with this H."""
        return next((run for run in self.grid if run.h == h), None)


@dataclass
class Results:
    """All of a study."""

    about: dict[str, Any]
    optimum: float
    target: float
    measured: dict[str, Measured] = field(default_factory=dict)

    def best_s(self, letter: str) -> Optional[float]:
        """Seconds to the target at the best H."""
        run = self.measured[letter].best(self.target) if letter in self.measured else None
        return None if run is None else run.to_target(self.target)

    def split(self, letter: str) -> Optional[Run]:
        """The run of many rounds with H = 1."""
        return self.measured[letter].split if letter in self.measured else None

    def save(self, path: Path) -> None:
        """Writes all of it."""
        path.write_text(json.dumps(dumped(self), indent=1) + "\n", encoding="utf-8")


def dumped(results: Results) -> dict[str, Any]:
    """As JSON has it."""

    def run(one: Run) -> dict[str, Any]:
        rows = [[each.seconds, each.worker_s, each.master_s, each.objective] for each in one.rounds]
        return {"h": one.h, "rounds": rows}

    variants = [
        {
            "letter": one.letter,
            "title": one.title,
            "is_same": one.is_same,
            "has_h": one.has_h,
            "split": None if one.split is None else run(one.split),
            "grid": [run(each) for each in one.grid],
        }
        for one in results.measured.values()
    ]
    return {"about": results.about, "optimum": results.optimum, "target": results.target, "variants": variants}


def loaded(path: Path) -> Results:
    """Reads what was saved."""

    def run(said: dict[str, Any]) -> Run:
        return Run([Round(*row) for row in said["rounds"]], said["h"])

    said = json.loads(path.read_text(encoding="utf-8"))
    found = Results(said["about"], said["optimum"], said["target"])
    for one in said["variants"]:
        split = None if one["split"] is None else run(one["split"])
        grid = [run(each) for each in one["grid"]]
        kept = Measured(one["letter"], one["title"], one["is_same"], one["has_h"], split, grid)
        found.measured[kept.letter] = kept
    return found

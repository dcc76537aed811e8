"""Writes a page for each example, for the site: what it shows, how it is run, and its text.

``python gallery.py FOLDER`` writes ``index.md`` and one page for each file of ``examples/python``. What an example is about is the first
paragraph of its documentation, so nothing here has to be kept up by hand.
"""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import List, Tuple

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "python"


def paragraph(text: str) -> str:
    """The first paragraph of a text, in one line."""
    return " ".join(text.strip().split("\n\n")[0].split())


def program(path: Path) -> Tuple[str, str, str]:
    """Title, what it is about, and the page of a program."""
    source = path.read_text(encoding="utf-8")
    about = ast.get_docstring(ast.parse(source)) or ""
    rest = "\n\n".join(about.strip().split("\n\n")[1:])
    page = f"# {path.stem}\n\n{paragraph(about)}\n\n"
    if rest:
        page += f"```text\n{rest}\n```\n\n"
    return path.stem, paragraph(about), f"{page}```python\n{source.rstrip()}\n```\n"


def notebook(path: Path) -> Tuple[str, str, str]:
    """The same of a notebook, cell by cell."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    texts = [("".join(cell["source"]), cell["cell_type"]) for cell in cells]
    parts = [text if kind == "markdown" else f"```python\n{text}\n```" for text, kind in texts]
    body = parts[0].partition("\n")[2]
    return path.stem, paragraph(body), "\n\n".join(parts) + "\n"


def report(folder: Path) -> Tuple[str, str, str]:
    """The small programs of the report, on one page."""
    about = "The programs of the report that qjam goes back to, as they were printed."
    page = f"# report\n\n{about}\n"
    for path in sorted(folder.glob("*.py")):
        page += f"\n## {path.stem}\n\n```python\n{path.read_text(encoding='utf-8').rstrip()}\n```\n"
    return "report", about, page


def main() -> None:
    """Writes all pages."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    made: List[Tuple[str, str, str]] = [program(path) for path in sorted(EXAMPLES.glob("*.py"))]
    made += [notebook(path) for path in sorted(EXAMPLES.glob("*.ipynb"))]
    made.append(report(EXAMPLES / "report" / "examples"))
    lines = ["# Examples in Python", "", "Each runs as it is; the tests run all of them.", ""]
    lines += ["| example | what it shows |", "|---|---|"]
    for name, about, page in made:
        lines.append(f"| [{name}]({name}.md) | {about} |")
        (folder / f"{name}.md").write_text(page, encoding="utf-8")
    (folder / "index.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

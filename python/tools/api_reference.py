"""Writes the reference of the package from its docstrings: `python api_reference.py > docs/book/python-api.md`.

Examples in docstrings are run by the tests, so what the page shows is what happens. A test compares the page with what this
program makes.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
import sys
from typing import Any, Iterator, List

MODULES = ["qjam", "qjam.dataset", "qjam.common.reducing", "qjam.learn", "qjam.optimize", "qjam.errors"]

HEAD = """# Reference

Made from the docstrings by `python/tools/api_reference.py`. The examples are run by the tests.
"""


def marked_down(text: str) -> str:
    """A docstring as Markdown: names as code, examples fenced, parameters as a list."""
    text = re.sub(r":(?:class|meth|func|mod|attr|exc):`~?([^`]+)`", r"`\1`", text)
    text = text.replace("``", "`")
    text = re.sub(r"^:param (\w+): ", r"- `\1`: ", text, flags=re.MULTILINE)
    lines: List[str] = []
    # What the lines that follow are part of: an example, a table, a drawing, a list of arguments.
    inside = ""
    for line in [*text.splitlines(), ""]:
        if inside == "example" and not line.strip():
            lines.append("```")
            inside = ""
        elif inside == "drawing" and line.strip() and not line.startswith("    "):
            _close(lines)
            inside = ""
        elif inside == "list" and line.strip() and not line.startswith("    "):
            inside = ""
        if not inside and line.startswith(">>>"):
            lines.append("```pycon")
            inside = "example"
        elif not inside and line.startswith("==="):
            lines.append("```text")
            inside = "table"
        elif inside == "table" and not line.strip():
            _close(lines)
            inside = ""
        elif not inside and line in ("Args:", "Raises:", "Returns:"):
            lines.extend(["*{}*".format(line[:-1]), ""])
            inside = "list"
            continue
        elif not inside and line.startswith("    ") and lines and not lines[-1].strip():
            lines.append("```text")
            inside = "drawing"
        if inside == "list":
            line = re.sub(r"^    (\w+): ", r"- `\1`: ", line)
            line = line[6:] if line.startswith("      ") else line
        lines.append(line[4:] if inside == "drawing" else line)
    if inside in ("drawing", "table"):
        _close(lines)
    return "\n".join(lines).strip() + "\n"


def _close(lines: List[str]) -> None:
    """Ends a fenced block before the empty lines that follow it."""
    while not lines[-1].strip():
        lines.pop()
    lines.extend(["```", ""])


def signature(obj: Any) -> str:
    """Parameters with their defaults; types are for checkers and would hide the names here."""
    try:
        found = inspect.signature(obj)
    except (TypeError, ValueError):
        return "(...)"
    plain = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for name, parameter in found.parameters.items()
        if name not in ("self", "cls")
    ]
    text = str(inspect.Signature(plain))
    # Objects whose text has an address in it.
    return re.sub(r"<[^<>]*>", "...", text)


def members(kind: type) -> Iterator[str]:
    """Public methods and properties of a class and of bases that are not public themselves, in the order they are written."""
    bases = [base for base in kind.__mro__ if base is kind or re.search(r"^qjam\..*\._", base.__module__)]
    told = set()
    for name, value in (item for base in bases for item in vars(base).items()):
        if name.startswith("_") or name in told:
            continue
        told.add(name)
        plain = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
        doc = inspect.getdoc(plain if not isinstance(value, property) else value)
        if isinstance(value, property):
            yield "#### `{}`\n\n{}".format(name, marked_down(doc or ""))
        elif inspect.isfunction(plain) and doc:
            yield "#### `{}{}`\n\n{}".format(name, signature(plain), marked_down(doc))


def fields(kind: type) -> str:
    """The fields of a record, with the comments beside them."""
    if not dataclasses.is_dataclass(kind):
        return ""
    told: List[str] = []
    for field in dataclasses.fields(kind):
        comment = re.search(
            r"((?:^    #: .*\n)+)    {}:".format(re.escape(field.name)), inspect.getsource(kind), re.MULTILINE
        )
        what = " ".join(line.strip()[2:].strip() for line in comment.group(1).splitlines()) if comment else ""
        told.append("- `{}`: {}".format(field.name, what.replace("``", "`")))
    return "\n".join(told) + "\n"


def entry(module: str, name: str, obj: Any) -> Iterator[str]:
    """All that there is to say of one name."""
    doc = marked_down(inspect.getdoc(obj) or "")
    if inspect.isclass(obj):
        made_by_us = (
            dataclasses.is_dataclass(obj) or issubclass(obj, BaseException) or "native" in signature(obj)
        )
        shown = "" if made_by_us else signature(obj)
        yield "### `{}.{}{}`\n\n{}".format(module, name, shown, doc)
        if fields(obj):
            yield fields(obj)
        yield from members(obj)
    elif callable(obj):
        yield "### `{}.{}{}`\n\n{}".format(module, name, signature(obj), doc)


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    told = set()
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        parts.append("## `{}`\n\n{}".format(module_name, marked_down(inspect.getdoc(module) or "")))
        for name in sorted(getattr(module, "__all__", [])):
            obj = getattr(module, name)
            home = getattr(obj, "__module__", module_name)
            # What is exported twice is told once, where it is at home.
            better = [
                other
                for other in MODULES
                if other != module_name and home.startswith(other) and other != "qjam"
            ]
            if id(obj) in told or better or name.startswith("_") or inspect.ismodule(obj):
                continue
            told.add(id(obj))
            parts.extend(entry(module_name, name, obj))
    return "\n".join(part.rstrip() + "\n" for part in parts)


if __name__ == "__main__":
    sys.stdout.write(page())

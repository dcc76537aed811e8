"""Finds variables of the user's modules that have been assigned since the import, as in ``config.rate = 50``.

Modules are sent as source, so a value that was assigned in this process has to be sent beside it. Comes in: the own modules of a blob.
Goes out: for each module the pickled values of variables that differ from the source. The source is parsed and not executed, so only
variables that it sets once, to a literal, can be compared with it, and variables that it does not set at all.
"""

from __future__ import annotations

import ast
import copy
import importlib.util
import logging
import os
import pickle
import sys
import time
import types
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Set, Tuple

from qjam import _own

#: By module: names and pickled values, in order.
Assigned = Dict[str, Tuple[Tuple[str, bytes], ...]]

_log = logging.getLogger("qjam")

# A longer literal is a table and not a setting. It is compared in every round, which would take long.
_NODES_MAX = 200
# A larger value is a matter of params.
_BYTES_MAX = 64 * 1024
_PLAIN = (type(None), bool, int, float, complex, str, bytes)
_ABSENT = object()

_warned: Set[Tuple[str, str]] = set()


def of(sources: Mapping[str, _own.Own]) -> Assigned:
    """The variables of these modules that differ from their source."""
    found: Assigned = {}
    for name, own in sources.items():
        module = _module_of(name, own)
        if module is not None:
            live = vars(sys.modules[name])
            values = module.assigned(name, live)
            if values:
                found[name] = tuple(values)
    if found:
        _add_imported(sources, found)
    return found


class _Module:
    """What the source of a module says about its variables."""

    def __init__(self, text: str, filename: str) -> None:
        self.literals: Dict[str, Any] = {}
        # All names that the source binds, and whether there are more that cannot be told from it.
        self.bound: Set[str] = set()
        self.has_star = False
        # Names that functions of the module assign.
        self.own_state: Set[str] = set()
        # Name here, module, name there.
        self.imported: List[Tuple[str, int, Optional[str], str]] = []
        # The number of variables when new ones were last looked for, and those found.
        self.looked = -1
        self.new: List[str] = []
        tree = ast.parse(text, filename)
        times: Dict[str, int] = {}
        for node in _statements(tree.body):
            if isinstance(node, ast.ImportFrom):
                self.has_star |= any(alias.name == "*" for alias in node.names)
                self.imported += [(a.asname or a.name, node.level, node.module, a.name) for a in node.names]
            for name in _binds(node):
                times[name] = times.get(name, 0) + 1
        for inner in ast.walk(tree):
            if isinstance(inner, ast.Global):
                self.own_state.update(inner.names)
        self.bound = set(times) | self.own_state
        for node in tree.body:
            targets: List[ast.expr] = []
            if isinstance(node, ast.Assign):
                targets = node.targets
            elif isinstance(node, ast.AnnAssign):
                targets = [node.target]
            value = getattr(node, "value", None)
            if len(targets) == 1 and isinstance(targets[0], ast.Name) and value is not None:
                name = targets[0].id
                literal = _literal(value) if times[name] == 1 else _ABSENT
                if literal is not _ABSENT:
                    self.literals[name] = literal

    def begin_with(self, module: str, live: Dict[str, Any]) -> None:
        """Takes the values that variables have now for those of the source, which may have changed since the import."""
        for name, written in list(self.literals.items()):
            value = live.get(name, _ABSENT)
            if value is _ABSENT or (type(value) is type(written) and value == written):
                continue
            if name not in self.own_state:
                _warn(module, name, value, "it was assigned, or the file has changed since this program began")
            if _is_plain(value):
                self.literals[name] = copy.deepcopy(value)
            else:
                del self.literals[name]

    def assigned(self, module: str, live: Dict[str, Any]) -> List[Tuple[str, bytes]]:
        """Variables that differ, with their pickled values."""
        found: List[Tuple[str, bytes]] = []
        for name, before in self.literals.items():
            value = live.get(name, _ABSENT)
            if value is before or value is _ABSENT or (type(value) is type(before) and value == before):
                continue
            if name in self.own_state:
                if name[:1] != "_":
                    _warn(module, name, value, "functions of the module assign it, so each process has its own")
                continue
            pickled = _pickled(value)
            if pickled is not None:
                found.append((name, pickled))
            else:
                _warn(module, name, value, "its value cannot be pickled, or takes more than 64 KiB")
        if len(live) != self.looked and not self.has_star:
            self.looked = len(live)
            self.new = [
                name
                for name, value in live.items()
                if name not in self.bound and name[:2] != "__" and _is_plain(value)
            ]
        for name in self.new:
            pickled = _pickled(live.get(name)) if _is_plain(live.get(name)) and name in live else None
            if pickled is not None:
                found.append((name, pickled))
        return found


# By name: the module of this process, and what its source says, as of the first look.
_modules: Dict[str, Tuple[types.ModuleType, Optional[_Module]]] = {}


def _module_of(name: str, own: _own.Own) -> Optional[_Module]:
    """What the source of a module of this process says; None if it cannot be read."""
    live = sys.modules.get(name)
    if live is None or own.text is None or getattr(live, "__file__", None) != own.filename:
        return None
    known = _modules.get(name)
    if known is None or known[0] is not live:
        try:
            made: Optional[_Module] = _Module(own.text, own.filename)
        except (SyntaxError, ValueError, RecursionError):
            made = None
        if made is not None and not _is_as_imported(own.filename):
            made.begin_with(name, vars(live))
        known = _modules[name] = (live, made)
    return known[1]


def _is_as_imported(filename: str) -> bool:
    """Whether a file is as it was when its module was imported: older than this process, or than its compiled form."""
    stamp = _own.stamp(filename)
    if stamp is None:
        return False
    changed = stamp[0] / 1e9
    # The system counts both in hundredths of a second. Nobody edits a file so soon after its import.
    if changed < _started() + 0.1:
        return True
    try:
        with open(importlib.util.cache_from_source(filename), "rb") as file:
            head = file.read(16)
    except (OSError, NotImplementedError):
        return False
    # Flags of 0: the time and the length of the source follow.
    wanted = b"".join((number & 0xFFFFFFFF).to_bytes(4, "little") for number in (0, int(changed), stamp[1]))
    return head[4:16] == wanted


def _started() -> float:
    """When this process began, in seconds since the epoch."""
    try:
        with open("/proc/self/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
        with open("/proc/uptime", "rb") as file:
            up = float(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        return 0.0
    return time.time() - up + ticks / os.sysconf("SC_CLK_TCK")


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.AST]:
    """The statements that run when a module is imported, without those inside functions and classes."""
    for node in body:
        yield node
        for field in ("body", "orelse", "finalbody"):
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                yield from _statements(getattr(node, field, []))
        for handler in getattr(node, "handlers", []) + getattr(node, "cases", []):
            yield handler
            yield from _statements(handler.body)


def _binds(node: ast.AST) -> Iterator[str]:
    """The names that a statement binds, without statements inside it."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
        return
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        for alias in node.names:
            yield alias.asname or alias.name.partition(".")[0]
        return
    if isinstance(node, ast.ExceptHandler):
        if node.name:
            yield node.name
        return
    waiting: List[ast.AST] = [node]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, (ast.Store, ast.Del)):
            yield inner.id
        elif type(inner).__name__ in ("MatchAs", "MatchStar") and getattr(inner, "name", None):
            yield str(getattr(inner, "name"))
        below = ast.iter_child_nodes(inner)
        waiting += [child for child in below if not isinstance(child, (ast.stmt, ast.ExceptHandler))]


_LITERALS = (
    ast.Constant,
    ast.UnaryOp,
    ast.BinOp,
    ast.Tuple,
    ast.List,
    ast.Dict,
    ast.Set,
    ast.operator,
    ast.unaryop,
    ast.expr_context,
)


def _literal(node: ast.expr) -> Any:
    """The value of an expression that is made of constants; `_ABSENT` for others."""
    count = 0
    for inner in ast.walk(node):
        count += 1
        if count > _NODES_MAX or not isinstance(inner, _LITERALS):
            return _ABSENT
    try:
        return eval(compile(ast.Expression(node), "<literal>", "eval"), {"__builtins__": {}})
    except Exception:
        return _ABSENT


def _is_plain(value: Any) -> bool:
    """Whether a value is a number, a text or a small collection of these."""
    waiting, count = [value], 0
    while waiting:
        item = waiting.pop()
        count += 1
        kind = type(item)
        if count > 1000:
            return False
        if kind in (list, tuple, set, frozenset):
            waiting.extend(item)
        elif kind is dict:
            waiting.extend(item.keys())
            waiting.extend(item.values())
        elif kind not in _PLAIN:
            return False
    return True


def _pickled(value: Any) -> Optional[bytes]:
    try:
        pickled = pickle.dumps(value, protocol=4)
    except Exception:
        return None
    # A class of the script is only a name there.
    return None if len(pickled) > _BYTES_MAX or b"__main__" in pickled else pickled


def _add_imported(sources: Mapping[str, _own.Own], found: Assigned) -> None:
    """A module that has imported an assigned variable from another one by name keeps the value that it got."""
    for name, own in sources.items():
        module = _module_of(name, own)
        if module is None or not module.imported:
            continue
        package = name if own.is_package else name.rpartition(".")[0]
        live = vars(sys.modules[name])
        more = []
        for here, level, where, there in module.imported:
            origin = _own.absolute(package, level, where)
            if origin in found and any(there == assigned for assigned, _ in found[origin]) and here in live:
                pickled = _pickled(live[here])
                if pickled is not None:
                    more.append((here, pickled))
        if more:
            found[name] = found.get(name, ()) + tuple(more)


def _warn(module: str, name: str, value: Any, why: str) -> None:
    if (module, name) in _warned:
        return
    _warned.add((module, name))
    shown = repr(value) if _is_plain(value) else "a " + type(value).__name__
    _log.warning(
        "%s.%s is %s here, and workers see the value in the file of %s: %s. Pass it as params.",
        module,
        name,
        shown if len(shown) <= 60 else shown[:57] + "...",
        module,
        why,
    )

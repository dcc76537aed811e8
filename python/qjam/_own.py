"""Determines which modules are the user's own, their sources, and their imports.

A module is own if its file is in the script's folder, in the working folder, or in the folder of another own module, and it is
not installed: not under `site-packages`, not in the standard library, not part of qjam. Own modules are sent to workers as source
text; everything else must be installed there. A source is read again when its file has changed, so an edit takes effect with the
next call. Imports nothing and runs nothing.
"""

from __future__ import annotations

import ast
import importlib.machinery
import os
import sys
import sysconfig
import tokenize
import types
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Set, Tuple

_HERE = os.path.dirname(os.path.realpath(__file__))


class Own(NamedTuple):
    """An own module: its file name as Python knows it, whether it is a package, and its text.

    The text is None for a package without a file of its own.
    """

    filename: str
    is_package: bool
    text: Optional[str]


class Imported(NamedTuple):
    """A name that some code imports, as `import name` or as `from name import parts`.

    It is optional if the code may go on without it, or may never get there.
    """

    name: str
    parts: Tuple[str, ...]
    optional: bool


def is_standard(top: str) -> bool:
    """Whether a top-level name belongs to the standard library."""
    names = getattr(sys, "stdlib_module_names", None)
    if names is not None:
        return top in names
    if top in sys.builtin_module_names or top == "__future__":
        return True
    spec = importlib.machinery.PathFinder.find_spec(top, [p for p in _standard_folders() if os.path.isdir(p)])
    return spec is not None


def _standard_folders() -> List[str]:
    paths = sysconfig.get_paths()
    standard = [paths[key] for key in ("stdlib", "platstdlib") if key in paths]
    standard += [os.path.join(path, "lib-dynload") for path in standard]
    return standard


def _folders_of_others() -> Tuple[str, ...]:
    folders = _standard_folders() + [sysconfig.get_paths().get(key, "") for key in ("purelib", "platlib")]
    return tuple(os.path.realpath(folder) + os.sep for folder in folders if folder) + (_HERE + os.sep,)


_OTHERS = _folders_of_others()
_INSTALLED = (os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep)


def is_elsewhere(filename: str) -> bool:
    """Whether a file belongs to something installed: a package, the standard library, qjam."""
    if filename.startswith(_OTHERS) or any(part in filename for part in _INSTALLED):
        return True
    real = os.path.realpath(filename)
    return real.startswith(_OTHERS) or any(part in real for part in _INSTALLED)


def _working_folder() -> str:
    try:
        return os.getcwd()
    except OSError:
        # It has been removed.
        return ""


def _roots() -> Set[str]:
    """Folders whose modules are the user's own."""
    roots = set()
    main = sys.modules.get("__main__")
    script = getattr(main, "__file__", None)
    if isinstance(script, str) and not is_elsewhere(script):
        roots.add(os.path.dirname(os.path.abspath(script)))
    if sys.path and os.path.isdir(sys.path[0] or "."):
        roots.add(os.path.abspath(sys.path[0] or "."))
    if _working_folder():
        roots.add(_working_folder())
    return {os.path.realpath(root) for root in roots}


class Finder:
    """Looks for own modules. Lives as long as one blob is being put together."""

    def __init__(self) -> None:
        self.roots = _roots()
        # Folders of modules that the user has named, where imports may find something without being told by Python.
        self.named: List[str] = []
        self.asked: Dict[str, Optional[Own]] = {}

    def covers(self, filename: str) -> bool:
        """Whether a file is the user's own."""
        if is_elsewhere(filename):
            return False
        real = os.path.realpath(filename)
        return any(real.startswith(root.rstrip(os.sep) + os.sep) for root in self.roots)

    def add(self, module: types.ModuleType) -> Optional[Own]:
        """Takes a module that the user has named as an own one, wherever it lies, if it has a text."""
        filename = getattr(module, "__file__", None)
        if not isinstance(filename, str) or not filename.endswith(".py") or is_elsewhere(filename):
            return None
        if module.__name__ == "__main__":
            # Its text would run the script again.
            return None
        text = read(filename)
        if text is None:
            return None
        own = Own(filename, hasattr(module, "__path__"), text)
        self.asked[module.__name__] = own
        self._add_root(module.__name__, own)
        self.named.append(os.path.dirname(os.path.abspath(filename)))
        return own

    def find(self, name: str) -> Optional[Own]:
        """The own module of this name, whether or not it has been imported here; None if it is not an own one."""
        if name not in self.asked:
            # A name that is being looked for is not looked for again.
            self.asked[name] = None
            own = self._look_for(name)
            self.asked[name] = own
            if own is not None:
                self._add_root(name, own)
        return self.asked[name]

    def _add_root(self, name: str, own: Own) -> None:
        """What lies beside an own module is own, too."""
        if own.text is not None and "." not in name:
            folder = os.path.dirname(os.path.realpath(own.filename))
            self.roots.add(os.path.dirname(folder) if own.is_package else folder)

    def _look_for(self, name: str) -> Optional[Own]:
        loaded = sys.modules.get(name)
        spec = getattr(loaded, "__spec__", None) if loaded is not None else self._spec_of(name)
        if name == "__main__":
            return None
        filename = getattr(loaded, "__file__", None) or getattr(spec, "origin", None)
        folders = getattr(loaded, "__path__", None) or getattr(spec, "submodule_search_locations", None)
        if isinstance(filename, str) and filename.endswith(".py"):
            if not self.covers(filename):
                return None
            text = read(filename)
            return None if text is None else Own(filename, folders is not None, text)
        if folders and filename in (None, "namespace"):
            inside = [os.path.join(folder, "__init__.py") for folder in folders]
            if inside and all(self.covers(path) for path in inside):
                return Own(inside[0], True, None)
        return None

    def _spec_of(self, name: str) -> Optional[importlib.machinery.ModuleSpec]:
        """What an import would find, without importing anything."""
        parent, _, _ = name.rpartition(".")
        if not parent:
            if name in sys.builtin_module_names:
                return None
            find = importlib.machinery.PathFinder.find_spec
            return find(name) or (find(name, self.named) if self.named else None)
        above = self.find(parent)
        if above is None:
            return None
        loaded = sys.modules.get(parent)
        folders = list(getattr(loaded, "__path__", [])) or [os.path.dirname(above.filename)]
        return importlib.machinery.PathFinder.find_spec(name, folders)


_judged: Dict[str, bool] = {}
# What the list was made for, and the list.
_loaded: Tuple[Any, List[str]] = (None, [])


def loaded() -> List[str]:
    """Names of the own modules that have been imported so far."""
    global _loaded
    where = (_working_folder(), sys.path[0] if sys.path else "")
    key = (where, len(sys.modules))
    if _loaded[0] == key:
        return _loaded[1]
    if _loaded[0] is None or _loaded[0][0] != where:
        _judged.clear()
    new = sys.modules.keys() - _judged.keys()
    if new:
        finder = Finder()
        for name in new:
            module = sys.modules.get(name)
            filename = getattr(module, "__file__", None)
            _judged[name] = name != "__main__" and isinstance(filename, str) and finder.covers(filename)
    _loaded = (key, [name for name, own in _judged.items() if own])
    return _loaded[1]


_texts: Dict[str, Tuple[Tuple[int, int, int], str]] = {}


def stamp(filename: str) -> Optional[Tuple[int, int, int]]:
    """What changes when a file is edited."""
    try:
        status = os.stat(filename)
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_size, status.st_ino)


def read(filename: str) -> Optional[str]:
    """The text of a source file, from memory if it has not changed."""
    now = stamp(filename)
    if now is None:
        known = _texts.get(filename)
        return known[1] if known else None
    known = _texts.get(filename)
    if known is None or known[0] != now:
        try:
            with tokenize.open(filename) as file:
                known = (now, file.read())
        except (OSError, SyntaxError, UnicodeDecodeError):
            return None
        _texts[filename] = known
    return known[1]


_imports: Dict[Tuple[str, str, bool], Tuple[Imported, ...]] = {}


def imports_of(name: str, own: Own) -> Tuple[Imported, ...]:
    """What the text of a module imports, at its top and inside its functions."""
    if own.text is None:
        return ()
    key = (own.text, name, own.is_package)
    if key not in _imports:
        if len(_imports) > 1000:
            _imports.clear()
        try:
            tree = ast.parse(own.text, own.filename)
        except SyntaxError:
            # The worker says so, with file and line, when it runs it; here it is just a module without imports.
            return ()
        package = name if own.is_package else name.rpartition(".")[0]
        found: List[Imported] = []
        _walk(tree, package, False, found)
        _imports[key] = tuple(found)
    return _imports[key]


def absolute(package: str, level: int, name: Optional[str]) -> Optional[str]:
    """The full name behind a relative import."""
    if level == 0:
        return name
    parts = package.split(".") if package else []
    if level - 1 >= len(parts):
        return None
    base = parts[: len(parts) - (level - 1)]
    return ".".join(base + ([name] if name else []))


def _walk(node: ast.AST, package: str, optional: bool, found: List[Imported]) -> None:
    if isinstance(node, ast.Import):
        found.extend(Imported(alias.name, (), optional) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        name = absolute(package, node.level, node.module)
        if name:
            found.append(Imported(name, tuple(alias.name for alias in node.names), optional))
    elif isinstance(node, ast.Try):
        forgiven = any(_catches_imports(handler) for handler in node.handlers)
        _walk_all(node.body, package, optional or forgiven, found)
        # What is imported instead is not needed either, if there is a choice.
        _walk_all(node.handlers, package, optional or forgiven, found)
        _walk_all(node.orelse + node.finalbody, package, optional, found)
    elif isinstance(node, ast.If) and _is_type_checking(node.test):
        _walk_all(node.orelse, package, optional, found)
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        # Nobody knows whether it is called: a module of the user's may also draw figures.
        _walk_all(ast.iter_child_nodes(node), package, True, found)
    else:
        _walk_all(ast.iter_child_nodes(node), package, optional, found)


def _walk_all(nodes: Iterable[ast.AST], package: str, optional: bool, found: List[Imported]) -> None:
    for node in nodes:
        _walk(node, package, optional, found)


def _catches_imports(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = {getattr(kind, "id", getattr(kind, "attr", None)) for kind in kinds}
    return bool(names & {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})


def _is_type_checking(test: ast.expr) -> bool:
    return getattr(test, "id", getattr(test, "attr", None)) == "TYPE_CHECKING"


def gather(finder: Finder, names: Iterable[str]) -> Tuple[Dict[str, Own], Set[str]]:
    """All own modules that these names lead to, and the packages that must be there besides.

    A module needs the packages above it, and what its text imports.
    """
    sources: Dict[str, Own] = {}
    needs: Set[str] = set()
    waiting = [(name, False) for name in sorted(set(names))]
    while waiting:
        name, optional = waiting.pop()
        if name in sources:
            continue
        own = finder.find(name)
        if own is None:
            top = name.partition(".")[0]
            if not optional and finder.find(top) is None and is_outside(top):
                needs.add(top)
            continue
        sources[name] = own
        if "." in name:
            waiting.append((name.rpartition(".")[0], optional))
        for imported in imports_of(name, own):
            waiting.append((imported.name, imported.optional))
            for part in imported.parts:
                # `from package import part` may mean a module of the package.
                below = imported.name + "." + part
                if finder.find(imported.name) is not None and finder.find(below) is not None:
                    waiting.append((below, imported.optional))
    return sources, needs


def is_outside(top: str) -> bool:
    """Whether a top-level name is a package that somebody has to have installed."""
    return top not in ("", "__main__", "__mp_main__", "builtins", "qjam", "cloudpickle") and not is_standard(
        top
    )

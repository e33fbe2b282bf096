"""Fingerprints of the sources that the rows of an experiment depend on.

A row depends on the module that measures it, on all modules of Merkat that this one imports, and on
those that they import. A package's own module counts where a name is imported from the package
itself. Other packages count by their version.
"""

import ast
from collections.abc import Callable, Iterator
from functools import cache, partial
from hashlib import sha256
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from inspect import unwrap
from pathlib import Path
from typing import Any

OURS = ("merkatd", "simulator", "controllers")
OTHERS = ("numpy", "scipy")


def fingerprint(measure: Callable[..., Any]) -> str:
    """Return the fingerprint of all sources that a function depends on."""
    while isinstance(measure, partial):
        measure = measure.func
    return fingerprint_of(unwrap(measure).__module__)


@cache
def fingerprint_of(module: str) -> str:
    """Return the fingerprint of all sources that a module depends on."""
    digest = sha256()
    for name, path in sorted(sources(module).items()):
        digest.update(f"{name}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    for name in OTHERS:
        digest.update(f"{name} {_version(name)}\0".encode())
    return digest.hexdigest()[:16]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def sources(module: str) -> dict[str, Path]:
    """Return the files of a module and of all modules that it depends on, by name."""
    folders = {name: _folder(name) for name in {*OURS, module.partition(".")[0]}}
    found: dict[str, Path] = {}
    left = [module]
    while left:
        name = left.pop()
        path = _file(name, folders)
        if path is not None and name not in found:
            found[name] = path
            left += _imported(name, path, folders)
    return found


def _folder(package: str) -> Path | None:
    file = getattr(import_module(package), "__file__", None)
    return Path(file).parent if file else None


def _file(module: str, folders: dict[str, Path | None]) -> Path | None:
    """Return the file of a module; None if it is none of ours."""
    top, *parts = module.split(".")
    folder = folders.get(top)
    if folder is None:
        return None
    package = folder.joinpath(*parts)
    candidates = (package / "__init__.py", package.with_suffix(".py"))
    return next((path for path in candidates if path.is_file()), None)


def _imported(module: str, path: Path, folders: dict[str, Path | None]) -> Iterator[str]:
    """Yield the names of the modules that a module may import, also inside functions."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: 1 - node.level or None] if node.level else []
            base = ".".join([*parents, *([node.module] if node.module else [])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                yield base if _file(inner, folders) is None else inner

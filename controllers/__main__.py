"""The program of a process: python -m controllers controller|monitor KIND FOLDER."""

import asyncio
import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from controllers.controller import Controller
from controllers.monitors.monitor import Monitor
from controllers.process import run_controller, run_monitor, take_passport
from merkatd.protocol.controller_kinds import CONTROLLERS, MONITORS, file_of, known_kinds

_BASES: dict[str, tuple[type, dict[str, str], Any]] = {
    "controller": (Controller, dict(CONTROLLERS), run_controller),
    "monitor": (Monitor, dict(MONITORS), run_monitor),
}


class UnknownError(Exception):
    """The kind of controller or monitor is unknown, or its file is invalid; the text says why."""


def class_of(what: str, kind: str, folder: Path) -> type:
    """Return the class of a kind, built in or from the site's own folder."""
    base, built_in, _ = _BASES[what]
    if kind in built_in:
        module, _, name = built_in[kind].partition(":")
        built: type = getattr(importlib.import_module(module), name)
        return built
    path = file_of(kind, folder)
    if path is None:
        there = ", ".join(known_kinds(folder, built_in)) or "none"
        raise UnknownError(f"the kind of a {what} must be one of {there} (got {kind!r})")
    return _only(_loaded(path), base)


def _loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem.replace("-", "_"), path)
    if spec is None or spec.loader is None:
        raise UnknownError(f"{path} can't be loaded as a Python module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _only(module: ModuleType, base: type) -> type:
    classes = [
        kind
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, base) and kind.__module__ == module.__name__
    ]
    if len(classes) != 1:
        raise UnknownError(
            f"{module.__file__} must define one subclass of {base.__name__} (got {len(classes)})"
        )
    return classes[0]


def main(words: list[str]) -> int:
    """Run one process, and return its exit code."""
    what, kind, folder = words
    run = _BASES[what][2]
    try:
        asyncio.run(run(class_of(what, kind, Path(folder)), take_passport()))
    except UnknownError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

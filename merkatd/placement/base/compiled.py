"""Machine code for functions: compiled ahead, else by numba at run time, else none.

`make compile` writes an extension module with all functions of the strategies beside this file.
Its name contains a digest of the sources, so Merkat never runs code of other sources. Without the
module numba compiles each function when it is first called; without numba the functions stay
Python. All forms return the same bits: numba without its fast-math option rounds as Python does.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])

_OPTIONS: Any = {"nogil": True, "error_model": "numpy"}
_SOURCES = ("market", "placement")
"""The folders with all compiled functions and the constants that they read."""

_python_forms: dict[Any, Callable[..., Any]] = {}
"""The Python function of each function of the extension module."""


def module_name() -> str:
    """Return the name of the extension module for the present sources."""
    top = Path(__file__).parents[2]
    digest = sha256()
    for path in sorted(file for folder in _SOURCES for file in (top / folder).rglob("*.py")):
        digest.update(f"{path.relative_to(top)}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return f"machine_code_{digest.hexdigest()[:16]}"


@cache
def _machine_code() -> ModuleType | None:
    """Return the extension module; None if there is none for these sources."""
    try:
        return import_module(f"{__package__}.{module_name()}")
    except ImportError:
        return None


@cache
def _njit() -> Any:
    """Return numba's decorator; None if numba is not installed."""
    try:
        from numba import config, njit  # noqa: PLC0415 - may be absent
    except ImportError:
        return None
    # numba fails on a cache that names a class which the present sources lack.
    settings: Any = config
    settings.CACHE_DIR = settings.CACHE_DIR or str(_cache_folder())
    return njit


def _cache_folder() -> Path:
    """Return a folder for numba's code that only processes with the present sources use."""
    beside = Path(__file__).parent / "__pycache__" / module_name()
    try:
        beside.mkdir(parents=True, exist_ok=True)
    except OSError:
        with suppress(RuntimeError):  # the user has no home
            return Path.home() / ".cache/merkat" / module_name()
    return beside


def compiled(function: Function) -> Function:
    """Return the function as machine code if possible; numba's is cached on disk if it may be."""
    if function.__module__.startswith("merkatd."):
        ahead = getattr(_machine_code(), function.__name__, None)
        if ahead is not None:
            _python_forms[ahead] = function
            return cast("Function", ahead)
    njit = _njit()
    if njit is None:
        return function
    _describe_to_numba()
    try:
        return cast("Function", njit(cache=True, **_OPTIONS)(function))
    except RuntimeError:  # no writable cache folder
        return cast("Function", njit(**_OPTIONS)(function))


def _describe_to_numba() -> None:
    """Let numba compile calls of the extension module's functions: from their Python form."""
    from numba.extending import overload  # noqa: PLC0415 - may be absent

    while _python_forms:
        ahead, function = _python_forms.popitem()
        overload(ahead, jit_options=_OPTIONS, strict=False)(_always(function))


def _always(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function from argument types to the function for them: always the same."""
    return lambda *_types: function

"""Optional compilation of functions to machine code with numba.

Without numba the functions stay Python. Both forms return the same bits: numba without its
fast-math option rounds as Python does.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast


def _njit() -> Any:
    """Return numba's decorator; None if numba is not installed."""
    try:
        from numba import njit  # noqa: PLC0415 - may be absent
    except ImportError:
        return None
    return njit


Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Return the function as machine code, cached on disk if a folder is writable."""
    njit = _njit()
    if njit is None:
        return function
    options = {"nogil": True, "error_model": "numpy"}
    try:
        return cast("Function", njit(cache=True, **options)(function))
    except RuntimeError:  # no writable cache folder
        return cast("Function", njit(**options)(function))

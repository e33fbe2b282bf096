"""How a function becomes machine code where numba is installed, and stays Python where not.

The functions are the same either way and give the same bits: numba without its fast-math
option rounds as Python does.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast


def _njit() -> Any:
    """Numba's decorator, None where numba is not installed."""
    try:
        from numba import njit  # noqa: PLC0415 - may be absent
    except ImportError:
        return None
    return njit


Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """The function as machine code, kept on disk between runs where the disk allows it."""
    njit = _njit()
    if njit is None:
        return function
    options = {"nogil": True, "error_model": "numpy"}
    try:
        return cast("Function", njit(cache=True, **options)(function))
    except RuntimeError:  # no folder that may be written to
        return cast("Function", njit(**options)(function))

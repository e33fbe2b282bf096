"""Asking OpenNebula in somebody's name."""

from collections.abc import Awaitable, Callable
from typing import Any

Ask = Callable[..., Awaitable[Any]]
"""A call of OpenNebula's, in somebody's name: the method and what follows the session."""

"""What is to run: a command, what it is handed, and how much it may take."""

from collections.abc import Mapping
from dataclasses import dataclass, field

SECRET_FD = "MERKAT_PASSPORT_FD"  # noqa: S105 - a variable's name
"""The environment variable with the file descriptor from which the secret can be read, once."""
SSH = "MERKAT_SSH"
"""The environment variable that says how monitors reach VMs, in JSON."""
HOME = "MERKAT_PROCESS_OF"
"""The environment variable that all processes of one daemon have, with its state directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much a process may take."""

    memory_bytes: int
    """Of address space."""
    cpu_s: int
    files: int
    nice: int = 19
    """The daemon's own work goes first. One tenant may have forty busy processes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One process of a platform."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    secret: str = field(repr=False)
    """Never in the arguments or the environment, where others could read it."""
    log: str
    """The file that its output goes to; the ones before it are this with .1, .2 and so on."""
    log_bytes: int
    logs: int
    bounds: Bounds
    given_up: bool = True
    """Whether it is tried no more after some starts that came to nothing."""

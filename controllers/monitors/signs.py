"""Signs of an application beside its log: its exit code, its VM's load; asked and read. Pure.

One line, which a shell writes without starting any other program: a VM that gets little CPU is
to spend it on its work.
"""

import math
import shlex
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass

from controllers.applications.shares import ENDED

_DIGITS = 10
_UNREADABLE = 255
"""What counts as the exit code where the file holds a longer number: it has failed."""


@dataclass(frozen=True, slots=True)
class Signs:
    """Of one VM; None: it does not say."""

    load: float | None = None
    exit: int | None = None


def command(status: str) -> str:
    """For a POSIX shell on the VM; `status` is the file with the exit code, once there is one."""
    file = shlex.quote(status or "/dev/null")
    load = "read l r 2>/dev/null </proc/loadavg"
    return f'{load}; e=; [ ! -r {file} ] || read e r <{file}; echo "$l:$e"'


def read(line: bytes) -> Signs:
    """What it said; words that mean nothing are passed over."""
    load, _, code = line.decode("ascii", "replace").partition(":")
    found = Signs()
    with suppress(ValueError):
        number = float(load)
        found = Signs(load=number if math.isfinite(number) else None)
    code = code.strip()
    if code.removeprefix("-").isdecimal():
        found = Signs(found.load, int(code) if len(code) <= _DIGITS else _UNREADABLE)
    return found


def told(signs: Mapping[int, Signs], logs: Collection[int]) -> dict[str, float]:
    """What a controller is to know of all those that answered; `logs`: VMs that have a log.

    It has ended well when it has in each of these; which have is told too.
    """
    there = list(signs.values())
    loads = [one.load for one in there if one.load is not None]
    exits = [one.exit for one in there if one.exit is not None]
    more = {"answering": float(len(there))} if there else {}
    if loads:
        more["load"] = sum(loads) / len(loads)
    working = [vm for vm in logs if vm not in signs or signs[vm].exit is None]
    if any(exits) or (exits and not working):
        # One that failed has failed them all.
        more["exit"] = float(max(exits, key=abs))
    if not any(exits):
        more |= {f"{ENDED}{vm}": 0.0 for vm in logs if vm in signs and signs[vm].exit == 0}
    return more

"""What a VM is asked of its log, exit code and load.

One line, which a shell writes without starting any other program: a VM that gets little CPU is
to spend it on its work.

A log is known by its inode. Where the name leads to another one, what was not read of the old is
looked for among the files beside it that rotation leaves (`run.log.1`, `run.log-20260501`), then
the new one is read from its beginning. Only whole lines count; the rest is read again. Pure.
"""

import math
import shlex
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from controllers.measurements import ENDED

_DIGITS = 10
_UNREADABLE = 255
"""What counts as the exit code where the file holds a longer number: it has failed."""


@dataclass(frozen=True, slots=True)
class Signs:
    """Of one VM; None: it does not say."""

    load: float | None = None
    exit: int | None = None


def signs_command(status: str) -> str:
    """For a POSIX shell on the VM; `status` is the file with the exit code, once there is one."""
    file = shlex.quote(status or "/dev/null")
    load = "read l r 2>/dev/null </proc/loadavg"
    return f'{load}; e=; [ ! -r {file} ] || read e r <{file}; echo "$l:$e"'


def read_signs(line: bytes) -> Signs:
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


def sign_values(signs: Mapping[int, Signs], logs: Collection[int]) -> dict[str, float]:
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


MAX_READ_BYTES: Final = 1 << 17
"""Bytes that are read at once; what is beyond them the next time."""
_SCRIPT: Final = (
    "f={file}; i={inode}; o={offset}; "
    'set -- $(stat -L -c "%i %s" -- "$f" 2>/dev/null); n=$1; z=$2; s=new; '
    'if [ "$n" = "$i" ]; then s=same; [ "$z" -ge "$o" ] || {{ s=cut; o=0; }}; '
    'elif [ "$i" != 0 ]; then for c in "$f".* "$f"-*; do '
    'set -- $(stat -L -c "%i %s" -- "$c" 2>/dev/null); '
    '[ -f "$c" ] && [ "$1" = "$i" ] && {{ s=old; f=$c; z=$2; break; }}; done; fi; '
    '[ "$s" = new ] && o=0; [ -z "$n" ] && [ "$s" != old ] && {{ echo none; exit 0; }}; '
    'echo "$s $n $o"; [ "$z" -gt "$o" ] || exit 0; '
    '[ $((z-o)) -gt {most} ] || exec tail -c +$((o+1)) -- "$f"; '
    'tail -c +$((o+1)) -- "$f" | head -c {most}'
)
"""As few programs as it takes: a VM that gets little CPU is to spend it on its work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """How far a log was read."""

    inode: int = 0
    """0: nothing of it was."""
    offset: int = 0


@dataclass(frozen=True, slots=True)
class LogPart:
    """What came, and whether there may be more at once."""

    position: Position
    lines: tuple[str, ...]
    more: bool
    begun_anew: bool = False
    """The file is shorter than what was read of it: it was emptied."""


def tail_command(path: str, position: Position) -> str:
    """For a POSIX shell on the VM."""
    return _SCRIPT.format(
        file=shlex.quote(path), inode=position.inode, offset=position.offset, most=MAX_READ_BYTES
    )


def read_tail(position: Position, answer: bytes) -> LogPart:
    """What the VM's answer says. ValueError where it is none."""
    head, _, data = answer.partition(b"\n")
    words = head.decode("ascii", "replace").split()
    if words == ["none"]:
        return LogPart(position, (), more=False)
    if len(words) not in {2, 3} or words[0] not in {"same", "new", "old", "cut"}:
        raise ValueError(f"not an answer: {head[:80]!r}")
    state, offset = words[0], int(words[-1])
    inode = int(words[1]) if len(words) == 3 else 0
    whole = data.rfind(b"\n") + 1
    lines = tuple(data[:whole].decode("utf-8", "replace").splitlines())
    if whole == 0 and len(data) >= MAX_READ_BYTES:  # a line longer than one read is left out
        whole = len(data)
    if state == "old":
        # Nobody writes there any more: its last line is whole, or will never be.
        done = len(data) < MAX_READ_BYTES
        at = Position() if done else Position(inode=position.inode, offset=offset + whole)
        return LogPart(at, lines, more=True)
    at = Position(inode=inode, offset=offset + whole)
    return LogPart(at, lines, more=len(data) >= MAX_READ_BYTES, begun_anew=state == "cut")

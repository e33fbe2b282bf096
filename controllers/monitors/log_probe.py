"""The shell commands that read a VM's log, exit code and load, and the parsers of their answers.

A shell writes load and exit code in one line without starting other programs, so that a VM with
little CPU can use it for its work.

A log is identified by its inode. If the log's path leads to another inode, the log was rotated.
Then the unread rest is read from a rotated file (`run.log.1`, `run.log-20260501`), and the new file
from its beginning. Only whole lines count; an incomplete last line is read again. Pure.
"""

import math
import shlex
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from controllers.measurements import ENDED

_DIGITS = 10
_FILE_DIGITS = 20
"""The digits of the largest inode. A longer number could not be stored in the monitor's memory."""
_UNREADABLE = 255
"""The exit code, a failure, that replaces a number with too many digits."""


@dataclass(frozen=True, slots=True)
class VmSigns:
    """The load and the exit code of one VM; None if unknown."""

    load: float | None = None
    exit: int | None = None


def signs_command(status: str) -> str:
    """Return the POSIX shell command for load and exit code; `status` has the exit code's path."""
    file = shlex.quote(status or "/dev/null")
    load = "read l r 2>/dev/null </proc/loadavg"
    return f'{load}; e=; [ ! -r {file} ] || read e r <{file}; echo "$l:$e"'


def read_signs(line: bytes) -> VmSigns:
    """Parse the answer to `signs_command`; invalid values count as unknown."""
    load, _, code = line.decode("ascii", "replace").partition(":")
    signs = VmSigns()
    with suppress(ValueError):
        number = float(load)
        signs = VmSigns(load=number if math.isfinite(number) else None)
    code = code.strip()
    if code.removeprefix("-").isdecimal():
        signs = VmSigns(signs.load, int(code) if len(code) <= _DIGITS else _UNREADABLE)
    return signs


def sign_values(signs: Mapping[int, VmSigns], logs: Collection[int]) -> dict[str, float]:
    """Return the measurements of the VMs that answered; `logs` are the VMs that have a log.

    The application has ended successfully once it has in each VM of `logs`. The measurements also
    name these VMs.
    """
    there = list(signs.values())
    loads = [reading.load for reading in there if reading.load is not None]
    exits = [reading.exit for reading in there if reading.exit is not None]
    more = {"answering": float(len(there))} if there else {}
    if loads:
        more["load"] = sum(loads) / len(loads)
    working = [vm for vm in logs if vm not in signs or signs[vm].exit is None]
    if any(exits) or (exits and not working):
        # A failure of one VM is a failure of the application.
        more["exit"] = float(max(exits, key=abs))
    if not any(exits):
        more |= {f"{ENDED}{vm}": 0.0 for vm in logs if vm in signs and signs[vm].exit == 0}
    return more


MAX_READ_BYTES: Final = 1 << 17
"""The most bytes of a log in one answer; the rest follows in the next."""
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
"""It starts as few programs as possible, so that a VM with little CPU can use it for its work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The position up to which a log was read."""

    inode: int = 0
    """The log's inode; 0 if no log was read yet."""
    offset: int = 0


@dataclass(frozen=True, slots=True)
class LogPart:
    """New lines of a log, and whether more may be waiting."""

    position: Position
    lines: tuple[str, ...]
    more: bool
    begun_anew: bool = False
    """Whether the file was emptied: it is shorter than the part that was read."""


def tail_command(path: str, position: Position) -> str:
    """Return the POSIX shell command that reads a log from a position."""
    return _SCRIPT.format(
        file=shlex.quote(path), inode=position.inode, offset=position.offset, most=MAX_READ_BYTES
    )


def _whole(word: str) -> int:
    """Return an inode or an offset. Raise ValueError unless the system could have written it."""
    if not word.isdecimal() or len(word) > _FILE_DIGITS:
        raise ValueError(f"expected at most {_FILE_DIGITS} digits (got {word[:80]!r})")
    return int(word)


def read_tail(position: Position, answer: bytes) -> LogPart:
    """Parse the answer to `tail_command`. Raise ValueError if it is invalid."""
    head, _, data = answer.partition(b"\n")
    words = head.decode("ascii", "replace").split()
    if words == ["none"]:
        return LogPart(position, (), more=False)
    if len(words) not in {2, 3} or words[0] not in {"same", "new", "old", "cut"}:
        raise ValueError(f"expected an answer to the log command (got {head[:80]!r})")
    state, offset = words[0], _whole(words[-1])
    inode = _whole(words[1]) if len(words) == 3 else 0
    read_bytes = data.rfind(b"\n") + 1
    lines = tuple(data[:read_bytes].decode("utf-8", "replace").splitlines())
    if read_bytes == 0 and len(data) >= MAX_READ_BYTES:  # a line longer than one read is skipped
        read_bytes = len(data)
    if state == "old":
        # A rotated file no longer grows: its last line is complete, or never will be.
        done = len(data) < MAX_READ_BYTES
        at = Position() if done else Position(inode=position.inode, offset=offset + read_bytes)
        return LogPart(at, lines, more=True)
    at = Position(inode=inode, offset=offset + read_bytes)
    return LogPart(at, lines, more=len(data) >= MAX_READ_BYTES, begun_anew=state == "cut")

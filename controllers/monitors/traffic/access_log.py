"""The requests in nginx's access logs: the shell command that reads them, and its parser. Pure.

The lines are in nginx's `combined` format, followed by ` rt=` and `$request_time`. nginx escapes
quotation marks in what clients send, and writes the time last. So no client can forge it.

# Note [Long logs]
A look reads at most a number of bytes of a log, the newest of those that were written since the
last look. What it skips counts as if it had as many lines a byte as what it reads. Example: nginx
wrote 3 MB and a look reads 500 KB of them, with 4,000 lines. Then 24,000 requests were answered,
and the percentiles come from 4,000 of them.

The command identifies a log by its inode, and reads the rest of a rotated file as `log_probe` does.
The first look reads nothing: the age of the lines that are there is unknown.
"""

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from controllers.monitors.log_probe import Position
from controllers.monitors.traffic.request_window import LONGEST_S, ResponseTimes, Traffic

MOST_BYTES: Final = 1 << 19
"""The most bytes of a log that a look reads from a VM."""
_MOST_OF_ALL: Final = 1 << 23
_LEAST_BYTES: Final = 1 << 13
_LONGEST_LINE: Final = 1 << 16
_FILE_DIGITS: Final = 20
_HEAD: Final = re.compile(rb'[^"]*"[^"]*" (\d{3}) \d+ "')
_TIME: Final = re.compile(rb"\d{1,6}\.\d{1,6}")
_MARK: Final = b" rt="
_FAILED: Final = 500
_SCRIPT: Final = (
    "f={file}; i={inode}; o={offset}; "
    'set -- $(stat -L -c "%i %s" -- "$f" 2>/dev/null); n=$1; z=$2; s=new; '
    'if [ "$i" = 0 ]; then o=$z; s=first; '
    'elif [ "$n" = "$i" ]; then s=same; [ "$z" -ge "$o" ] || {{ s=cut; o=0; }}; '
    'else for c in "$f".* "$f"-*; do '
    'set -- $(stat -L -c "%i %s" -- "$c" 2>/dev/null); '
    '[ -f "$c" ] && [ "$1" = "$i" ] && [ "$2" -ge "$o" ] && {{ s=old; f=$c; z=$2; break; }}; '
    "done; fi; "
    '[ "$s" = new ] && o=0; [ -z "$n" ] && [ "$s" != old ] && {{ echo none; exit 0; }}; '
    "b=$o; [ $((z-b)) -le {most} ] || b=$((z-{most})); "
    'echo "$s ${{n:-0}} $b $z"; [ "$z" -gt "$b" ] || exit 0; '
    'tail -c +$((b+1)) -- "$f" | head -c $((z-b))'
)


def bytes_of_each(vms: int) -> int:
    """Return how many bytes a look reads from each of so many VMs at most."""
    return max(min(MOST_BYTES, _MOST_OF_ALL // max(vms, 1)), _LEAST_BYTES)


def log_command(path: str, position: Position, most: int) -> str:
    """Return the POSIX shell command that reads the newest lines of a log after a position."""
    return _SCRIPT.format(
        file=shlex.quote(path), inode=position.inode, offset=position.offset, most=most
    )


@dataclass(frozen=True, slots=True)
class AccessPart:
    """New lines of an access log."""

    position: Position
    lines: tuple[bytes, ...]
    weight: float
    """The number of lines in the log for each of these lines: 1 unless some were skipped."""
    more: bool
    """Whether the rest of a rotated file was read, and the new file is next."""


def read_log(position: Position, answer: bytes, most: int) -> AccessPart:
    """Parse the answer to `log_command`. Raise ValueError if it is invalid."""
    head, _, data = answer.partition(b"\n")
    words = head.decode("ascii", "replace").split()
    if words == ["none"]:
        raise ValueError("the log is missing")
    if len(words) != 4 or words[0] not in {"first", "same", "new", "old", "cut"}:
        raise ValueError(f"expected an answer to the log command (got {head[:80]!r})")
    state, inode, begin, end = words[0], *map(_whole, words[1:])
    after = position.offset if state in {"same", "old"} else 0
    if state == "first":
        return AccessPart(Position(inode=inode, offset=end), (), 1.0, more=False)
    if not after <= begin <= end or len(data) > min(end - begin, most):
        raise ValueError(f"expected at most {most} bytes of the log (got {head[:80]!r})")
    lines, weight, done = _whole_lines(data, after, begin, most)
    if state == "old" and inode:
        # The rotated file no longer grows: its last line is complete, or never will be.
        return AccessPart(Position(inode=inode), lines, weight, more=True)
    own = position.inode if state == "old" else inode
    return AccessPart(Position(inode=own, offset=done), lines, weight, more=False)


def _whole_lines(
    data: bytes, after: int, begin: int, most: int
) -> tuple[tuple[bytes, ...], float, int]:
    """Return the whole lines, the weight of each, and the offset at which the next look begins."""
    first = data.find(b"\n") + 1 if begin > after else 0
    last = data.rfind(b"\n") + 1
    whole = data[first:last]
    if not whole:
        # A line that is longer than one read is skipped.
        skipped = begin > after or len(data) >= most
        return (), 1.0, begin + (last or len(data)) if skipped else begin
    done = begin + last
    weight = (done - after) / len(whole) if begin > after else 1.0
    return tuple(whole[:-1].split(b"\n")), weight, done


def _whole(word: str) -> int:
    """Return an inode or an offset. Raise ValueError unless the system could have written it."""
    if not word.isdecimal() or len(word) > _FILE_DIGITS:
        raise ValueError(f"expected at most {_FILE_DIGITS} digits (got {word[:80]!r})")
    return int(word)


def traffic_of(lines: Iterable[tuple[bytes, float]]) -> Traffic:
    """Return the traffic of lines, each with its weight.

    nginx writes a line when a request ends, so as many requests arrived as ended.
    """
    times = ResponseTimes()
    answered = failed = unread = 0.0
    for line, weight in lines:
        read = _read(line)
        if read is None:
            unread += weight
            continue
        status, seconds = read
        answered += weight
        if status >= _FAILED:
            failed += weight
        else:
            times.add(seconds, weight)
    return Traffic(arrived=answered, answered=answered, failed=failed, unread=unread, times=times)


def _read(line: bytes) -> tuple[int, float] | None:
    """Return the status and the response time in a line; None for another format."""
    if len(line) > _LONGEST_LINE:
        return None
    head, mark, time = line.rpartition(_MARK)
    if not mark or _TIME.fullmatch(time) is None:
        return None
    match = _HEAD.match(head)
    seconds = float(time)
    return (int(match[1]), seconds) if match is not None and seconds <= LONGEST_S else None


class AccessLogs:
    """The `TrafficSource` of nginx: the positions in the access logs of a cluster's VMs."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._most = MOST_BYTES
        self._positions: dict[int, Position] = {}
        self._begun: dict[int, list[AccessPart]] = {}

    def begin(self, vms: Iterable[int]) -> None:
        """Begin a look at these VMs, and forget all others."""
        there = set(vms)
        self._most = bytes_of_each(len(there))
        self._positions = {vm: at for vm, at in self._positions.items() if vm in there}
        self._begun = {}

    def command(self, vm: int) -> str:
        """Return the next command for a VM."""
        return log_command(self._path, self._positions.get(vm, Position()), self._most)

    def take(self, vm: int, answer: bytes) -> bool:
        """Take an answer; return whether another command is needed.

        Raise ValueError if the answer is invalid. The VM's next look is then its first again.
        """
        known = self._positions.pop(vm, None)
        try:
            part = read_log(known or Position(), answer, self._most)
        except ValueError:
            self._begun.pop(vm, None)
            raise
        if known is not None:
            self._begun.setdefault(vm, []).append(part)
        self._positions[vm] = part.position
        return part.more

    def traffic(self) -> Mapping[int, Traffic]:
        """Return the traffic of each VM since its last look, if it had one."""
        return {
            vm: traffic_of((line, part.weight) for part in parts for line in part.lines)
            for vm, parts in self._begun.items()
        }

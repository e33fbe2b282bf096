"""Slurm: `squeue`, `sinfo` and `scontrol`, in forms that machines read.

Workers come by themselves (`slurmd -Z`, dynamic nodes); what is drained and gone is deleted.
"""

import shlex
from collections.abc import Iterable
from typing import Final

from controllers.monitors.queues.batch import Queue, Worker

_SEPARATOR: Final = "--nodes--"
_RUNNING: Final = frozenset({"RUNNING", "COMPLETING", "CONFIGURING"})
_DRAINED: Final = ("drain", "drng")
_LOST: Final = ("down", "no_respond", "unknown", "fail")
_REASON: Final = "merkat"


class Slurm:
    """Implements `Batch`."""

    def look(self) -> str:
        """Jobs with their state, processors, nodes and the time since they were submitted.

        The nodes are asked for first: what was drained then can't be given a job any more.
        """
        return (
            "nodes=$(sinfo -h -N -o '%N|%t' | sort -u); now=$(date +%s);"
            " squeue -h -a -o '%T|%C|%V|%N' | while IFS='|' read s c v n; do"
            ' echo "$s|$c|$((now-$(date -d "$v" +%s)))|$n"; done;'
            f' echo {_SEPARATOR}; echo "$nodes"'
        )

    def read(self, answer: str) -> Queue:
        """A job without nodes waits; one on several nodes counts on each."""
        before, found, after = answer.partition(f"{_SEPARATOR}\n")
        if not found:
            raise ValueError(f"not an answer of Slurm's: {answer[:80]!r}")
        waiting = wanted = running = 0
        longest_s = 0.0
        busy: dict[str, int] = {}
        for line in before.splitlines():
            state, processors, age_s, nodes = line.split("|")
            if state == "PENDING":
                waiting += 1
                wanted += int(processors)
                longest_s = max(longest_s, float(age_s))
            elif state in _RUNNING:
                running += 1
                for node in _expanded(nodes):
                    busy[node] = busy.get(node, 0) + 1
        workers = {}
        for line in filter(None, after.splitlines()):
            name, state = line.split("|")
            word = state.rstrip("*~#!%$@^-+").lower()
            workers[name] = Worker(
                name=name,
                jobs=busy.get(name, 0),
                drained=word.startswith(_DRAINED),
                lost=state.endswith("*") or word.startswith(_LOST),
            )
        return Queue(
            waiting=waiting, wanted=wanted, longest_s=longest_s, running=running, workers=workers
        )

    def drain(self, workers: Iterable[str]) -> str:
        """One command for all."""
        return f"scontrol update nodename={_list(workers)} state=drain reason={_REASON}"

    def restore(self, workers: Iterable[str]) -> str:
        """One command for all."""
        return f"scontrol update nodename={_list(workers)} state=resume"

    def forget(self, workers: Iterable[str]) -> str:
        """One that is busy, or comes back, is not deleted: Slurm refuses."""
        return "; ".join(f"scontrol delete nodename={shlex.quote(one)}" for one in workers)


def _list(workers: Iterable[str]) -> str:
    return shlex.quote(",".join(workers))


def _expanded(nodes: str) -> list[str]:
    """The names in a list like `w[1-3,7],x4`."""
    found: list[str] = []
    rest = nodes
    while rest:
        head, bracket, tail = rest.partition("[")
        names = head.split(",")
        if not bracket:
            return found + [name for name in names if name]
        *plain, prefix = names
        found += [name for name in plain if name]
        inside, _, rest = tail.partition("]")
        for part in inside.split(","):
            first, _, last = part.partition("-")
            width = len(first)
            found += [
                f"{prefix}{number:0{width}d}"
                for number in range(int(first), int(last or first) + 1)
            ]
        rest = rest.removeprefix(",")
    return found

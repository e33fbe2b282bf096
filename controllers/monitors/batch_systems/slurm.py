"""The adapter of Slurm: `squeue`, `sinfo` and `scontrol` with machine-readable output.

Workers register themselves (`slurmd -Z`, dynamic nodes). Drained nodes that are gone are deleted.
"""

import shlex
from collections.abc import Iterable, Mapping
from typing import Final

from controllers.monitors.batch_systems.batch_system import LEFT, Queue, Worker, age_s

_NODES: Final = "--nodes--"
_NOW: Final = "--now--"
_OVER: Final = frozenset(
    {
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        "FAILED",
        "LAUNCH_FAILED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "RECONFIG_FAIL",
        "REVOKED",
        "TIMEOUT",
    }
)
"""States of jobs that have ended. Jobs in all other states occupy their nodes, even if suspended,
as they continue there."""
_HELD: Final = (
    "Account",
    "Assoc",
    "BeginTime",
    "Dependency",
    "Invalid",
    "JobArrayTaskLimit",
    "JobHeld",
    "JobHold",
    "Licenses",
    "Max",
    "PartitionDown",
    "PartitionInactive",
    "PartitionTimeLimit",
    "QOS",
    "Reservation",
    "launch failed requeued held",
    "launch_failed_requeued_held",
)
"""Prefixes of the reasons of waiting jobs that no worker would help. Slurm itself holds jobs that
it could not start several times."""
_DRAINED: Final = ("drain", "drng")
_LOST: Final = ("down", "no_respond", "unknown", "fail")
_REASON: Final = "merkat"
_MOST_NODES: Final = 10_000
"""The limit of node names in an answer, as a short list like `w[1-999999999]` can be huge."""


class Slurm:
    """The implementation of `Batch` for Slurm."""

    def look(self) -> str:
        """Return the command for jobs and nodes.

        Identical jobs form one line: their number, state, processors, submission time, reason of
        waiting, and nodes. The command reads nodes first, so that a node it shows as drained can't
        get another job. Each task of an array is a job; as there may be 100,000, the head counts
        them.
        """
        return (
            "nodes=$(sinfo -h -N -o '%N|%t' | sort -u);"
            " SLURM_TIME_FORMAT=standard squeue -h -a -r -o '%T|%C|%V|%r|%N' | sort | uniq -c;"
            f' echo {_NODES}; echo "$nodes"; echo {_NOW}; date +%Y-%m-%dT%H:%M:%S'
        )

    def read(self, answer: str) -> Queue:
        """Parse the answer; a job on several nodes counts on each of them."""
        before, separator, after = answer.partition(f"{_NODES}\n")
        nodes, dated, now = after.partition(f"{_NOW}\n")
        if not (separator and dated):
            raise ValueError(f"expected an answer of Slurm (got {answer[:80]!r})")
        waiting = wanted = running = 0
        longest_s = 0.0
        busy: dict[str, int] = {}
        names = 0
        for line in before.splitlines():
            count, row = line.split(None, 1)
            state, processors, submitted, why, on = row.split("|")
            jobs = int(count)
            if state == "PENDING" and not why.startswith(_HELD):
                waiting += jobs
                wanted += jobs * int(processors)
                longest_s = max(longest_s, age_s(submitted, now.strip()))
            elif on and state not in _OVER:
                running += jobs
                found_nodes = _expanded(on)
                names += len(found_nodes)
                _check(names)
                for node in found_nodes:
                    busy[node] = busy.get(node, 0) + jobs
        return Queue(
            waiting=waiting,
            wanted=wanted,
            longest_s=longest_s,
            running=running,
            workers=_workers(nodes, busy),
        )

    def drain(self, workers: Iterable[str]) -> str:
        """Return one command that drains all these workers."""
        return f"scontrol update nodename={_list(workers)} state=drain reason={_REASON}"

    def restore(self, workers: Iterable[str]) -> str:
        """Return one command that restores all these workers."""
        return f"scontrol update nodename={_list(workers)} state=resume"

    def forget(self, workers: Iterable[str]) -> str:
        """Return the command that deletes workers.

        Slurm refuses to delete a node that is busy or returning, and also a node that never
        joined. So only the final list of nodes counts.
        """
        names = [shlex.quote(worker) for worker in workers]
        deleted = "; ".join(f"scontrol delete nodename={name}" for name in names)
        patterns = " ".join(f"-e {name}" for name in names)
        there = f'echo {LEFT}; echo "$nodes" | sort -u | grep -xF {patterns}; true'
        return f"{deleted}; nodes=$(sinfo -h -N -o %N) && {{ {there}; }}"


def _workers(nodes: str, busy: Mapping[str, int]) -> dict[str, Worker]:
    workers = {}
    lines = nodes.splitlines()
    _check(len(lines))
    for line in filter(None, lines):
        name, state = line.split("|")
        word = state.rstrip("*~#!%$@^-+").lower()
        workers[name] = Worker(
            name=name,
            jobs=busy.get(name, 0),
            drained=word.startswith(_DRAINED),
            lost=state.endswith("*") or word.startswith(_LOST),
        )
    return workers


def _list(workers: Iterable[str]) -> str:
    return shlex.quote(",".join(workers))


def _check(names: int) -> None:
    """Raise ValueError if there are too many names."""
    if names > _MOST_NODES:
        raise ValueError(f"an answer of Slurm must name at most {_MOST_NODES} nodes")


def _expanded(nodes: str) -> list[str]:
    """Return the names in a list like `w[1-3,7],x4`."""
    listed: list[str] = []
    rest = nodes
    while rest:
        head, bracket, tail = rest.partition("[")
        names = head.split(",")
        if not bracket:
            return listed + [name for name in names if name]
        *plain, prefix = names
        listed += [name for name in plain if name]
        inside, _, rest = tail.partition("]")
        for part in inside.split(","):
            first, _, last = part.partition("-")
            width, numbers = len(first), range(int(first), int(last or first) + 1)
            # Check the number before creating the names.
            _check(len(listed) + min(max(numbers.stop - numbers.start, 0), _MOST_NODES + 1))
            listed += [f"{prefix}{number:0{width}d}" for number in numbers]
        rest = rest.removeprefix(",")
    return listed

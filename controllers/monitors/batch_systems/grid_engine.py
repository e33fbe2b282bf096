"""The adapter of Grid Engine: `qstat` with XML output, `qmod` and `qconf`.

To drain a worker, its queue instances are disabled. A worker that is gone is removed from the host
group `@allhosts`, through which the queues must refer to it, and from the lists of hosts.
"""

import shlex
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from controllers.monitors.batch_systems.batch_system import LEFT, Queue, Worker, age_s

_LATER: Final = "--later--"
_NOW: Final = "--now--"
_CLOSED: Final = frozenset("dsoE")
"""Disabled, suspended, without a configuration, in error: states that do not end by themselves."""
_UNHEARD, _ERROR = "u", "E"
_HELD: Final = frozenset("hE")
"""States of pending jobs that no worker would help: on hold, or in error."""
_LOOK: Final = f"""\
all=$(qstat -u '*' -f -xml) && printf '%s\\n{_LATER}\\n' "$all"
case $all in *'<JAT_prio>0.00000<'*) qstat -u '*' -s ha -xml;; esac
printf '\\n{_NOW}\\n'; date +%Y-%m-%dT%H:%M:%S"""
_FORGET: Final = """\
jobs() {{
qstat -u '*' -f -ne -q {listed} -s rs -xml | awk -F'[<>]' '/<JB_job_number>/ {{job = $3}}
/<tasks>/ {{job = job "." $3}} /<\\/job_list>/ {{print job}}' | sort -u
}}
found=$(jobs)
if [ -n "$found" ]; then
qconf -aattr hostgroup hostlist {spaced} @allhosts
qmod -d {instances}; qmod -rj $found
found=$(jobs); [ -z "$found" ] || qdel -f $found
fi
qconf -dattr hostgroup hostlist {spaced} @allhosts -ds {commas} -dh {commas} -de {commas}
qconf -sh >/dev/null && {{ echo {left}; qconf -sel | grep -xF {patterns}; true; }}"""


@dataclass(slots=True)
class _Host:
    """The queue instances of one host."""

    jobs: set[str]
    heard: bool = True
    closed: bool = True
    broken: bool = True

    def worker(self, name: str) -> Worker:
        """Return the host as a worker; without jobs and unable to start any, it counts as lost."""
        lost = not self.heard or (self.broken and not self.jobs)
        return Worker(name=name, jobs=len(self.jobs), drained=self.closed, lost=lost)


class GridEngine:
    """The implementation of `Batch` for Grid Engine."""

    def look(self) -> str:
        """Return the command for queue instances, jobs, jobs with a start time, and the time."""
        return _LOOK

    def read(self, answer: str) -> Queue:
        """Parse the answer; a job's slots count as processors, each task of an array as a job."""
        document, _, rest = answer.partition(f"{_LATER}\n")
        later, separator, now = rest.partition(f"{_NOW}\n")
        if not separator:
            raise ValueError(f"expected an answer of Grid Engine (got {answer[:80]!r})")
        root = _parsed(document)
        not_yet = _not_yet(later)
        hosts = _hosts(root)
        waiting = wanted = 0
        longest_s = 0.0
        for job in root.iter("job_list"):
            held = _HELD & set(_text(job, "state")) or _text(job, "JB_job_number") in not_yet
            if job.get("state") != "pending" or held:
                continue
            tasks = _counted(_text(job, "tasks"))
            waiting += tasks
            wanted += tasks * int(_text(job, "slots") or 1)
            since = _text(job, "JB_submission_time") or _text(job, "JAT_start_time")
            longest_s = max(longest_s, age_s(since, now.strip()))
        return Queue(
            waiting=waiting,
            wanted=wanted,
            longest_s=longest_s,
            running=len({job for host in hosts.values() for job in host.jobs}),
            workers={name: host.worker(name) for name, host in hosts.items()},
        )

    def drain(self, workers: Iterable[str]) -> str:
        """Return one command that drains all these workers."""
        return f"qmod -d {_instances(workers)}"

    def restore(self, workers: Iterable[str]) -> str:
        """Return one command that restores all these workers."""
        return f"qmod -e {_instances(workers)}"

    def forget(self, workers: Iterable[str]) -> str:
        """Return the command that removes workers; their jobs are rerun if possible, else deleted.

        The order matters. A qmaster crashes if it reruns such jobs while their host is in no group,
        and it gives more jobs to a host whose loss it has not noticed. Parts of the command may
        fail, or may have been done before: only the final list of hosts counts.
        """
        names = list(workers)
        return _FORGET.format(
            spaced=shlex.quote(" ".join(names)),
            instances=_instances(names),
            listed=shlex.quote(",".join(f"*@{name}" for name in names)),
            commas=shlex.quote(",".join(names)),
            left=LEFT,
            patterns=" ".join(f"-e {shlex.quote(name)}" for name in names),
        )


def _parsed(document: str) -> ET.Element:
    try:
        return ET.fromstring(document)  # noqa: S314 - the answer of the platform's own head
    except ET.ParseError as error:
        raise ValueError(f"expected an answer of Grid Engine in XML: {error}") from None


def _not_yet(later: str) -> set[str]:
    """Return the jobs whose requested start time has not come yet."""
    if not later.strip():
        return set()
    return {
        _text(job, "JB_job_number")
        for job in _parsed(later).iter("job_list")
        if float(_text(job, "JAT_prio") or 0) == 0
    }


def _hosts(root: ET.Element) -> dict[str, _Host]:
    """Return the hosts by name; a host of several queues takes jobs while one of them is open."""
    hosts: dict[str, _Host] = {}
    for instance in root.iter("Queue-List"):
        host = hosts.setdefault(_text(instance, "name").partition("@")[2], _Host(set()))
        states = set(_text(instance, "state"))
        host.jobs |= set(_running(instance))
        host.heard &= _UNHEARD not in states
        host.closed &= bool(_CLOSED & states)
        host.broken &= _ERROR in states
    return hosts


def _running(instance: ET.Element) -> Iterator[str]:
    """Yield the jobs of a queue instance, including suspended jobs and jobs that are starting.

    A parallel job is on many hosts.
    """
    for job in instance.iterfind("job_list"):
        yield f"{_text(job, 'JB_job_number')}.{_text(job, 'tasks')}"


def _text(element: ET.Element, name: str) -> str:
    return element.findtext(name) or ""


def _counted(tasks: str) -> int:
    """Return the number of tasks in a list like `3-10:1,12`; 1 for a job that is no array."""
    count = 0
    for part in tasks.split(","):
        span, _, step = part.partition(":")
        first, _, last = span.partition("-")
        count += (int(last) - int(first)) // int(step or 1) + 1 if last else 1
    return count


def _instances(workers: Iterable[str]) -> str:
    return " ".join(shlex.quote(f"*@{worker}") for worker in workers)

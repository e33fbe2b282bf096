"""Grid Engine: `qstat` and `qmod`, in the XML that it writes for machines.

A worker's queue instances are disabled to drain it; a host that is gone is taken from the
groups and lists it is in.
"""

import shlex
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from controllers.monitors.queues.batch import Queue, Worker

_AGE: Final = "--now--"
_DISABLED, _UNHEARD = "d", "u"


class GridEngine:
    """Implements `Batch`."""

    def look(self) -> str:
        """All jobs and queue instances; the head's own time, against which jobs were submitted."""
        return f"qstat -u '*' -f -r -xml; echo; echo {_AGE}; date +%Y-%m-%dT%H:%M:%S"

    def read(self, answer: str) -> Queue:
        """A job's slots are the processors that it asks for."""
        document, found, now = answer.partition(f"{_AGE}\n")
        if not found:
            raise ValueError(f"not an answer of Grid Engine's: {answer[:80]!r}")
        try:
            root = ET.fromstring(document)  # noqa: S314 - our own head's answer, over SSH
        except ET.ParseError as error:
            raise ValueError(f"not an answer of Grid Engine's: {error}") from None
        workers: dict[str, Worker] = {}
        running = 0
        for instance in root.iter("Queue-List"):
            host = (instance.findtext("name") or "").partition("@")[2]
            states = instance.findtext("state") or ""
            jobs = sum(one.get("state") == "running" for one in instance.iter("job_list"))
            running += jobs
            known = workers.get(host)
            workers[host] = Worker(
                name=host,
                jobs=jobs + (known.jobs if known else 0),
                drained=_DISABLED in states,
                lost=_UNHEARD in states,
            )
        waiting = [one for one in root.iter("job_list") if one.get("state") == "pending"]
        ages = [_age_s(one.findtext("JB_submission_time") or "", now.strip()) for one in waiting]
        return Queue(
            waiting=len(waiting),
            wanted=sum(int(one.findtext("slots") or 1) for one in waiting),
            longest_s=max(ages, default=0.0),
            running=running,
            workers=workers,
        )

    def drain(self, workers: Iterable[str]) -> str:
        """One command for all."""
        return f"qmod -d {_instances(workers)}"

    def restore(self, workers: Iterable[str]) -> str:
        """One command for all."""
        return f"qmod -e {_instances(workers)}"

    def forget(self, workers: Iterable[str]) -> str:
        """From the host group that all queues go by, then from the execution hosts."""
        return "; ".join(
            f"qconf -dattr hostgroup hostlist {name} @allhosts; qconf -de {name}"
            for name in map(shlex.quote, workers)
        )


def _instances(workers: Iterable[str]) -> str:
    return " ".join(shlex.quote(f"*@{one}") for one in workers)


def _age_s(submitted: str, now: str) -> float:
    """Both as the head's clock writes them."""
    try:
        passed = datetime.fromisoformat(now) - datetime.fromisoformat(submitted)
    except ValueError:
        return 0.0
    return max(0.0, passed.total_seconds())

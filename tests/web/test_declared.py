"""A declared job on a whole daemon: measured without a controller, saved, and shown."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from merkatd.client import Platforms
from tests.api.xmlrpc.site import ANN, until
from tests.web.site import PageSite

JOB = """
name = "render"
[controller]
kind = "none"
parameters = { steps = 100000 }
[budget]
credits = 1000
[job]
goal = "2h"
[[job.stage]]
work = 1000000
greatest_speed = 100
[[cluster]]
name = "nodes"
template = '''
CPU = "1"
VCPU = "1"
MEMORY = "128"
EMBEDDED = [ WORK = "1000000", ITERATIONS = "100000" ]
'''
[cluster.monitor]
kind = "steps"
parameters = { log = "/var/log/run.log", every_s = 1 }
"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[PageSite]:
    """Yield a daemon with a page and short periods."""
    made = PageSite(tmp_path)
    try:
        yield made
    finally:
        made.end()


def test_a_jobs_progress_reaches_the_saved_snapshot_and_the_views(site: PageSite) -> None:
    """Its monitor runs in a process of its own, and no controller does."""
    with site.merkat(ANN) as merkat:
        platforms = Platforms(merkat)
        job = platforms.submit(JOB)
        assert job.declares is not None
        assert job.declares.startswith("job: 1e+06 core-seconds in 1 stage, goal 2")

        def snapshot() -> Any:
            return {"jobs": []} | json.loads(site.order("snapshot"))

        until(lambda: any(row["work_done"] > 0 for row in snapshot()["jobs"]), "its progress")
        saved, info = snapshot(), platforms.show(job.id)
        (row,) = saved["jobs"]
        assert row["application"] == info.application
        assert 0 < row["work_done"] < 1e8
        assert row["started_s"] is not None
        assert saved["stages"] == [
            {
                "job": info.application,
                "work": 1e8,
                "least_speed": 0,
                "greatest_speed": 100,
                "memory_mib": 0,
            }
        ]
        kinds = {vm["kind"] for vm in saved["vms"] if vm["application"] == info.application}
        assert kinds == {"batch"}
        assert "of its work is done, started 2" in (info.declared_state or "")
    page = site.browser(ANN).get(f"/platforms/{job.id}").text
    assert info.declares is not None
    assert info.declares in page
    assert "of its work is done, started 2" in page
    other = site.browser(ANN).get(f"/platforms/{site.platform}").text
    assert "core-seconds" not in other
    roles = sorted(path.name for path in (site.state / "platforms" / str(job.id)).glob("*.log"))
    assert roles == ["monitor-0.log"]


SHORT = (
    JOB.replace("steps = 100000", "steps = 24")
    .replace('ITERATIONS = "100000"', 'ITERATIONS = "24"')
    .replace('WORK = "1000000"', 'WORK = "24"')
    .replace("[[job.stage]]\nwork = 1000000\ngreatest_speed = 100\n", "")
)
SAID = r"job: [0-9.]+ core-seconds in \d stages?, from 1 earlier run, goal 2"


def test_a_job_ends_by_itself_and_the_next_one_has_its_stages(site: PageSite) -> None:
    """Its only process is a monitor, which counts the iterations of a guest."""
    with site.merkat(ANN) as merkat:
        platforms = Platforms(merkat)
        first = platforms.submit(SHORT)
        assert (first.declares or "").startswith("job: unknown work, goal 2")
        until(lambda: platforms.show(first.id).state == "done", "the end of its work")
        assert platforms.show(first.id).why == "each of its VMs has made all 24 iterations"

        second = platforms.submit(SHORT + '[start]\nnot_before = "1h"\n')

        def declares() -> str:
            return platforms.show(second.id).declares or ""

        until(lambda: "from 1 earlier run" in declares(), "the stages of its run")
        assert re.match(SAID, declares())
    page = site.browser(ANN).get(f"/platforms/{second.id}").text
    assert re.search(SAID, page)

"""The embedded cloud's template on real hosts, where its application really computes."""

from collections.abc import Iterator

import pytest

from tests.controllers.applications.test_one_template import STEPS, TEMPLATE
from tests.real.applications.site import Containers, containers
from tests.real.host import RealHost, until

BID = 10.0
"""The bid of a VM that always wants a core."""


@pytest.fixture
def site(
    mortal_hosts: list[RealHost], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Containers]:
    """Yield a site with one host of two cores."""
    with containers(
        tmp_path_factory.mktemp("s"), mortal_hosts[0], cores=2, memory_mib=2048
    ) as running_site:
        yield running_site


def test_its_tenant_reads_that_it_meets_its_deadline_and_it_does(site: Containers) -> None:
    """Beside a VM that always wants a core, the log has all iterations before the deadline."""
    site.burning(BID, vcpus=1)
    platform = site.submit(site.tenant("ann"), TEMPLATE.read_text())

    def sure() -> bool:
        assert not site.failed, site.failed
        assert site.platform(platform).state not in {"failed", "cancelled"}, shown()
        return "On track: expected to end" in shown() and f"of {STEPS} iterations" in shown()

    def shown() -> str:
        return site.command("platform", "show", str(platform))

    until(sure, "on track")
    # A platform that misses its deadline fails.
    until(lambda: site.platform(platform).state in {"done", "failed"}, "the end")
    assert site.platform(platform).state == "done", shown()
    log = site.host.run("cat", "/run/heat/run.log").splitlines()
    assert [int(line.split()[1]) for line in log] == list(range(1, STEPS + 1))

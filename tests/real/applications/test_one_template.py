"""The template that the embedded cloud is given, on real hosts: its application really computes."""

from collections.abc import Iterator

import pytest

from tests.controllers.applications.test_one_template import STEPS, TEMPLATE
from tests.real.applications.site import Containers, containers
from tests.real.host import RealHost, until

BID = 10.0
"""Of one who wants a core, and all the time."""


@pytest.fixture
def site(
    mortal_hosts: list[RealHost], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Containers]:
    """One host of two cores."""
    with containers(
        tmp_path_factory.mktemp("s"), mortal_hosts[0], cores=2, memory_mib=2048
    ) as found:
        yield found


def test_its_tenant_reads_that_it_will_make_it_and_it_does(site: Containers) -> None:
    """Beside somebody who always wants a core; all of its iterations are in its log."""
    site.burning(BID, vcpus=1)
    platform = site.submit(site.tenant("ann"), TEMPLATE.read_text())

    def sure() -> bool:
        assert not site.failed, site.failed
        assert site.platform(platform).state not in {"failed", "cancelled"}, shown()
        return "On track: expected to end" in shown() and f"of {STEPS} iterations" in shown()

    def shown() -> str:
        return site.command("platform", "show", str(platform))

    until(sure, "on track")
    # After its deadline it would have failed.
    until(lambda: site.platform(platform).state in {"done", "failed"}, "the end")
    assert site.platform(platform).state == "done", shown()
    log = site.host.run("cat", "/run/heat/run.log").splitlines()
    assert [int(line.split()[1]) for line in log] == list(range(1, STEPS + 1))

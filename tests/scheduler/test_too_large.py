"""A guest that starts with more memory than a host has goes to a larger one, or waits."""

from typing import Any

import pytest

from merkatd.embedded.model.settings import HostSize
from tests.scheduler.frontend import PAPER_MARKET, Frontend

SMALL, LARGE = HostSize(800, 8_192), HostSize(800, 32_768)


@pytest.fixture
def site() -> Any:
    """Return two hosts, the second one larger."""
    made = Frontend(hosts=1, size=SMALL)
    made.cloud.add_hosts(1, LARGE)
    made.world_settings = {"markets": (PAPER_MARKET,)}
    made.start_daemon()
    yield made
    made.close()


@pytest.mark.parametrize("cap", [{}, {"MERKAT_MAX_MEMORY": 512}])
def test_a_large_guest_goes_to_a_host_with_enough_memory(
    site: Frontend, cap: dict[str, Any]
) -> None:
    """A small cap changes nothing, and small guests can use any host."""
    large = [site.vm(CPU=0.5, VCPU=1, MEMORY=9_000, **cap) for _ in range(2)]
    small = [site.vm(VCPU=1, MEMORY=512) for _ in range(4)]
    site.periods(4)
    assert {site.host_of(vm) for vm in large} == {1}
    assert {site.host_of(vm) for vm in small} == {0, 1}


def test_a_guest_too_large_for_any_host_waits_with_a_message(site: Frontend) -> None:
    """Its neighbours have their memory meanwhile."""
    vm = site.vm(VCPU=1, MEMORY=33_000)
    other = site.vm(VCPU=1, MEMORY=16_000)
    site.periods(4)
    assert site.host_of(other) == 1
    assert site.state(vm) == "PENDING"
    message = site.bench.vm(vm).user_template.get("SCHED_MESSAGE")
    assert "(a host with 33,000 MiB of memory, which its guest needs to start)" in message

"""A daemon that was stopped beyond its lease applies no more of its pending steps."""

from tests.hypervisor.bed import Bed, limit
from tests.hypervisor.double import DoubleHost

GUESTS = 10
SET = "setSchedulerParametersFlags"


def test_no_call_starts_once_the_lease_may_be_lost() -> None:
    """Hosts do not count as away, and the rest is applied once the lease is safe again."""
    host, later = DoubleHost(), DoubleHost()
    for vm in range(GUESTS):
        host.start(vm)
    later.start(GUESTS)
    bed = Bed({0: host, 1: later}, surely=lambda: ours)
    ours = True
    bed.read()
    steps = [limit(vm, vcpu=20_000) for vm in range(GUESTS + 1)]

    def stopped(call: str, domain: str) -> None:
        nonlocal ours
        ours = ours and not (call == SET and domain == "one-3")

    host.refuse = stopped
    refused = bed.apply(*steps)
    assert [step.id in refused for step in steps] == [False] * 4 + [True] * 7
    assert "another daemon may have taken over" in refused[steps[4].id]
    assert host.calls[SET] == 4
    assert not later.calls[SET]
    assert not bed.adapter.reach().away
    bed.read()
    assert bed.read().vm_id.tolist() == list(range(GUESTS + 1))
    ours, host.refuse = True, lambda _call, _domain: None
    assert bed.apply(*steps[4:]) == {}

"""Every member of a VM group counts, including members that Merkat does not place."""

import pytest

from merkatd.scheduler.base.settings import MarketRules
from tests.lengths import pair
from tests.scheduler.frontend import Frontend

LEFT_ALONE = "left-alone"


def group(frontend: Frontend, policy: str) -> dict[str, str]:
    """Create a VM group with one role of this policy; return the attribute for VMs."""
    words = f'NAME="g"\nROLE=[NAME="web",POLICY="{policy}"]'
    number = frontend.bench.ok("one.vmgroup.allocate", words)
    return {"VMGROUP": f'[VMGROUP_ID="{number}",ROLE="web"]'}


def member(frontend: Frontend, of: dict[str, str], **more: object) -> int:
    """Create a pending VM of the group."""
    lines = {"CPU": 1, "VCPU": 1, "MEMORY": 512, "MERKAT_BID_CPU": 1} | more
    text = "\n".join(f'{name}="{value}"' for name, value in lines.items())
    return frontend.bench.new(f"{text}\nVMGROUP={of['VMGROUP']}")


def deploy_by_hand(frontend: Frontend, vm: int, host: int) -> None:
    """Deploy the VM as an administrator does."""
    frontend.bench.ok("one.vm.deploy", vm, host)
    frontend.clock.advance(60)


def where(policy: str) -> tuple[int, int]:
    """Return the other member's host and the correct, non-default host for Merkat's VM."""
    return (1, 1) if policy == "AFFINED" else (0, 1)


@pytest.mark.parametrize(
    ("strategy", "policy"), pair(["tabu", "paper", "groups"], ["AFFINED", "ANTI_AFFINED"])
)
class TestMembers:
    def test_an_unmanaged_member_counts(self, policy: str, strategy: str) -> None:
        """It belongs to an excluded group, runs, and stays on its host."""
        market = MarketRules(strategy=strategy, excluded_groups=frozenset({LEFT_ALONE}))
        frontend = Frontend(hosts=3, markets=(market,))
        number = frontend.bench.ok("one.group.allocate", LEFT_ALONE)
        of = group(frontend, policy)
        other = member(frontend, of)
        frontend.bench.ok("one.vm.chown", other, -1, number)
        there, right = where(policy)
        deploy_by_hand(frontend, other, there)
        ours = member(frontend, of)
        frontend.periods(4)
        assert frontend.state(ours) == "RUNNING"
        assert frontend.host_of(other) == there
        assert frontend.host_of(ours) == right
        frontend.close()

    def test_a_failed_member_counts(self, policy: str, strategy: str) -> None:
        """An administrator can restart it there at any time."""
        frontend = Frontend(hosts=3, markets=(MarketRules(strategy=strategy),))
        of = group(frontend, policy)
        other = member(frontend, of)
        frontend.bench.ok("embedded.fault.add", {"kind": "fail", "lcm": "BOOT", "count": 1})
        there, right = where(policy)
        deploy_by_hand(frontend, other, there)
        assert frontend.state(other) == "BOOT_FAILURE"
        ours = member(frontend, of)
        frontend.periods(4)
        assert frontend.state(ours) == "RUNNING"
        assert frontend.host_of(ours) == right
        frontend.bench.ok("one.vm.recover", other, 2)
        frontend.clock.advance(60)
        assert frontend.state(other) == "RUNNING"
        frontend.close()


def test_members_in_two_markets_form_one_group() -> None:
    """They must share a host, but their markets share none: one member waits."""
    frontend = Frontend(
        hosts=3,
        markets=(MarketRules(), MarketRules(name="gold", cluster_names=frozenset({"gold"}))),
    )
    cluster = frontend.bench.ok("one.cluster.allocate", "gold")
    frontend.bench.ok("one.cluster.addhost", cluster, 2)
    for datastore in (0, 1):
        frontend.bench.ok("one.cluster.adddatastore", cluster, datastore)
    of = group(frontend, "AFFINED")
    first = member(frontend, of)
    second = member(frontend, of, MERKAT_MARKET="gold")
    frontend.periods(3)
    assert [frontend.state(vm) for vm in (first, second)] == ["RUNNING", "PENDING"]
    assert "VM group (role g/web) leaves none" in frontend.bench.ok("one.vm.info", second)
    frontend.close()

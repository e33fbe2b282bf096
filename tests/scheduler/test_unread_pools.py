"""Pools with tenants' texts that can't be read after a restart: rights and VM groups hold."""

import re
from collections.abc import Iterator

import pytest
from twisted.logger import capturedLogs

from merkatd.cluster.columns import NO_MARKET
from merkatd.embedded.machines.faults import Fault, FaultKind
from merkatd.scheduler.base.settings import MarketRules
from tests.scheduler.frontend import Frontend

HOSTS = 0x2000000000
"""The kind of a rule about hosts."""
_RULE = re.compile(r"<ACL><ID>(\d+)</ID><USER>\w+</USER><RESOURCE>(\w+)</RESOURCE>")


@pytest.fixture
def frontend() -> Iterator[Frontend]:
    """Yield a cloud of two hosts."""
    made = Frontend(hosts=2)
    yield made
    made.close()


def forbid_hosts(frontend: Frontend) -> None:
    """Delete the rules that let users use hosts."""
    for number, resource in _RULE.findall(frontend.bench.ok("one.acl.info")):
        if int(resource, 16) & HOSTS:
            frontend.bench.ok("one.acl.delrule", int(number))


def restart_without(frontend: Frontend, *methods: str) -> None:
    """Start another daemon, which can't read the answers to these calls."""
    frontend.start_daemon()
    for method in methods:
        frontend.cloud.faults.add(Fault(FaultKind.TRUNCATE, method))


@pytest.mark.parametrize("methods", [("one.userpool.info",), ("one.user*.info",)])
def test_an_owner_gets_no_host_that_its_rights_exclude(
    frontend: Frontend, methods: tuple[str, ...]
) -> None:
    """Neither if the owner can be read by itself, nor if it can't."""
    forbid_hosts(frontend)
    vm = frontend.vm(owner=frontend.user("eve"))
    restart_without(frontend, *methods)
    with capturedLogs():
        frontend.periods(8)
    assert frontend.state(vm) == "PENDING"


def test_other_owners_get_hosts(frontend: Frontend) -> None:
    """They are read one by one, also if their first VM comes later."""
    first = frontend.vm(owner=frontend.user("ann"))
    bob = frontend.user("bob")
    restart_without(frontend, "one.userpool.info")
    with capturedLogs() as logged:
        frontend.periods(2)
        second = frontend.vm(owner=bob)
        frontend.periods(3)
    assert [frontend.state(vm) for vm in (first, second)] == ["RUNNING", "RUNNING"]
    assert not [event for event in logged if "missing" in (event.get("log_format") or "")]


def test_vms_of_a_group_stay_apart(frontend: Frontend) -> None:
    """The third VM of the role waits, as there are two hosts."""
    text = 'NAME="g"\nROLE=[NAME="w",POLICY="ANTI_AFFINED"]'
    group = frontend.bench.ok("one.vmgroup.allocate", text)
    role = f'VMGROUP=[VMGROUP_ID="{group}",ROLE="w"]'
    vms = [frontend.bench.new(f"CPU=1\nVCPU=1\nMEMORY=512\n{role}") for _ in range(3)]
    restart_without(frontend, "one.vmgrouppool.info")
    with capturedLogs():
        frontend.periods(8)
    assert sorted(map(frontend.state, vms)) == ["PENDING", "RUNNING", "RUNNING"]


def test_an_excluded_group_stays_excluded() -> None:
    """The name of the group is read with the group itself."""
    market = MarketRules(excluded_groups=frozenset({"left-alone"}))
    frontend = Frontend(hosts=1, markets=(market,))
    group = frontend.bench.ok("one.group.allocate", "left-alone")
    vm = frontend.vm()
    frontend.bench.ok("one.vm.chown", vm, -1, group)
    frontend.bench.ok("one.vm.deploy", vm, 0)
    frontend.clock.advance(60)
    restart_without(frontend, "one.grouppool.info")
    with capturedLogs():
        seen = frontend.periods(3).seen
    assert seen.snapshot.vms.market.tolist() == [NO_MARKET]
    frontend.close()

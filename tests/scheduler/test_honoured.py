"""OpenNebula's placement rules, from its pools to the hosts of VMs."""

from xml.etree import ElementTree as ET

import pytest

from tests.scheduler.frontend import Frontend


def message_of(frontend: Frontend, vm: int) -> str:
    """Return the message that the VM's owner reads."""
    return frontend.bench.vm(vm).user_template.get("SCHED_MESSAGE", "")


def test_requirements_are_met_reported_and_removed(frontend: Frontend) -> None:
    """The template's requirement leads to a host or to a message with the reason."""
    frontend.bench.ok("one.host.update", 1, 'RACK="7"', 1)
    there = frontend.vm(SCHED_REQUIREMENTS="RACK = 7")
    waits = frontend.vm(SCHED_REQUIREMENTS="RACK > 9")
    frontend.periods(2)
    assert frontend.host_of(there) == 1
    assert message_of(frontend, waits) == (
        "no host satisfies SCHED_REQUIREMENTS RACK > 9: 2 hosts have no attribute RACK;"
        " existing values: '7'"
    )
    frontend.bench.ok("one.host.update", 2, 'RACK="10"', 1)
    frontend.periods(3)
    assert (frontend.host_of(waits), message_of(frontend, waits)) == (2, "")


def test_rank_and_priority_are_respected(frontend: Frontend) -> None:
    """The highest rank decides between equal hosts, the highest priority between VMs."""
    frontend.bench.ok("one.host.update", 2, 'SPEED="9"', 1)
    vm = frontend.vm(SCHED_RANK="SPEED")
    frontend.periods(2)
    assert frontend.host_of(vm) == 2
    large = [frontend.vm(MEMORY=8192, MERKAT_MIN_MEMORY=5000) for _ in range(3)]
    urgent = frontend.vm(MEMORY=8192, MERKAT_MIN_MEMORY=5000, USER_PRIORITY=5)
    frontend.periods(2)
    assert [frontend.state(vm) for vm in (*large, urgent)].count("RUNNING") == 3
    assert frontend.state(urgent) == "RUNNING"


def test_a_users_rights_are_respected(frontend: Frontend) -> None:
    """Without a rule for hosts only an administrator has rights."""
    mine, root = frontend.vm(owner=frontend.user("ann")), frontend.vm()
    pool = ET.fromstring(frontend.bench.ok("one.acl.info"))  # noqa: S314 - trusted XML
    for rule in pool.findall("ACL"):
        frontend.bench.ok("one.acl.delrule", int(rule.findtext("ID", "")))
    frontend.periods(2)
    assert frontend.state(root) == "RUNNING"
    assert message_of(frontend, mine).startswith(
        "user ann may use none of 3 hosts (needs MANAGE on "
    )


@pytest.mark.parametrize(("policy", "hosts"), [("ANTI_AFFINED", 3), ("AFFINED", 1)])
def test_vm_groups_are_respected(frontend: Frontend, policy: str, hosts: int) -> None:
    """The members of a role are placed apart or together."""
    template = f'NAME="g"\nROLE=[NAME="web",POLICY="{policy}"]'
    group = frontend.bench.ok("one.vmgroup.allocate", template)
    member = f'CPU="1"\nVCPU="1"\nMEMORY="512"\nVMGROUP=[VMGROUP_ID="{group}",ROLE="web"]'
    vms = [frontend.bench.new(member) for _ in range(3)]
    frontend.periods(3)
    assert len({frontend.host_of(vm) for vm in vms}) == hosts

"""What OpenNebula's pools say about places, from the words in them to where VMs are."""

from xml.etree import ElementTree as ET

import pytest

from tests.scheduler.frontend import Frontend


def told(frontend: Frontend, vm: int) -> str:
    """What the VM's owner reads."""
    return frontend.bench.vm(vm).user_template.get("SCHED_MESSAGE", "")


def test_requirements_are_kept_told_and_withdrawn(frontend: Frontend) -> None:
    """From the template to the host, or to the reason."""
    frontend.bench.ok("one.host.update", 1, 'RACK="7"', 1)
    there = frontend.vm(SCHED_REQUIREMENTS="RACK = 7")
    waits = frontend.vm(SCHED_REQUIREMENTS="RACK > 9")
    frontend.periods(2)
    assert frontend.host_of(there) == 1
    assert told(frontend, waits) == (
        "no host satisfies SCHED_REQUIREMENTS RACK > 9: 2 hosts have no attribute RACK;"
        " existing values: '7'"
    )
    frontend.bench.ok("one.host.update", 2, 'RACK="10"', 1)
    frontend.periods(3)
    assert (frontend.host_of(waits), told(frontend, waits)) == (2, "")


def test_rank_and_priority(frontend: Frontend) -> None:
    """Of equal hosts the highest rank; of VMs that wait the highest priority."""
    frontend.bench.ok("one.host.update", 2, 'SPEED="9"', 1)
    vm = frontend.vm(SCHED_RANK="SPEED")
    frontend.periods(2)
    assert frontend.host_of(vm) == 2
    large = [frontend.vm(MEMORY=8192, MERKAT_MIN_MEMORY=5000) for _ in range(3)]
    urgent = frontend.vm(MEMORY=8192, MERKAT_MIN_MEMORY=5000, USER_PRIORITY=5)
    frontend.periods(2)
    assert [frontend.state(vm) for vm in (*large, urgent)].count("RUNNING") == 3
    assert frontend.state(urgent) == "RUNNING"


def test_the_users_rights(frontend: Frontend) -> None:
    """Without a rule for hosts nobody but an administrator has any."""
    mine, root = frontend.vm(owner=frontend.user("ann")), frontend.vm()
    pool = ET.fromstring(frontend.bench.ok("one.acl.info"))  # noqa: S314 - our own cloud's
    for rule in pool.findall("ACL"):
        frontend.bench.ok("one.acl.delrule", int(rule.findtext("ID", "")))
    frontend.periods(2)
    assert frontend.state(root) == "RUNNING"
    assert told(frontend, mine).startswith("user ann may use none of 3 hosts (needs MANAGE on ")


@pytest.mark.parametrize(("policy", "hosts"), [("ANTI_AFFINED", 3), ("AFFINED", 1)])
def test_vm_groups(frontend: Frontend, policy: str, hosts: int) -> None:
    """Members of a role apart, or together."""
    template = f'NAME="g"\nROLE=[NAME="web",POLICY="{policy}"]'
    group = frontend.bench.ok("one.vmgroup.allocate", template)
    member = f'CPU="1"\nVCPU="1"\nMEMORY="512"\nVMGROUP=[VMGROUP_ID="{group}",ROLE="web"]'
    vms = [frontend.bench.new(member) for _ in range(3)]
    frontend.periods(3)
    assert len({frontend.host_of(vm) for vm in vms}) == hosts

"""Rights of ordinary users, and of a scheduler's account with access rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.contract.endpoint import SMALL
from tests.contract.ways import PENDING, RUNNING, STOPPED, SUSPENDED

if TYPE_CHECKING:
    from tests.contract.endpoint import Endpoint

VM, HOST, USER, DATASTORE, CLUSTER, GROUP, NET, VMGROUP, ACL, ZONE = (
    0x1000000000, 0x2000000000, 0x10000000000, 0x100000000000, 0x200000000000, 0x40000000000,
    0x4000000000, 0x20000000000000, 0x80000000000, 0x800000000000,
)  # fmt: skip
ALL, ONE = 0x400000000, 0x100000000
USE, MANAGE, ADMIN = 1, 2, 4

FORBIDDEN = [
    ("one.vm.deploy", ("vm", "host")),
    ("one.vm.migrate", ("vm", "host", True)),
    ("one.vm.action", ("resched", "vm")),
    ("one.vm.recover", ("vm", 3)),
    ("one.vm.chown", ("vm", 0, 0)),
    ("one.host.update", ("host", "A=1", 1)),
    ("one.host.status", ("host", 1)),
    ("one.host.delete", ("host",)),
    ("one.host.allocate", ("contract-x", "dummy", "dummy", -1)),
    ("one.user.allocate", ("contract-x", "pw", "core")),
    ("one.user.update", (0, "A=1", 1)),
    ("one.acl.addrule", ("400000000", "2400000000", "1")),
    ("one.cluster.allocate", ("contract-x",)),
    ("one.group.allocate", ("contract-x",)),
]


@pytest.mark.parametrize(("method", "arguments"), FORBIDDEN)
def test_ordinary_users_cannot_administer(
    endpoint: Endpoint, method: str, arguments: tuple[Any, ...]
) -> None:
    """They get 512, even for their own VM."""
    _, session = endpoint.user()
    real = {"vm": endpoint.new(session=session), "host": endpoint.hosts[0]}
    given = tuple(real.get(item, item) if isinstance(item, str) else item for item in arguments)
    code, text = endpoint.refused(method, *given, session=session)
    assert code == 512
    assert text.startswith(f"[{method}] User [")


def test_ordinary_users_manage_their_own_vms(endpoint: Endpoint) -> None:
    """They suspend, resume, stop, update and terminate them, and don't see other users' VMs."""
    _, ann = endpoint.user()
    _, bob = endpoint.user()
    vm = endpoint.running(session=ann)
    for action, end in (
        ("suspend", SUSPENDED), ("resume", RUNNING), ("stop", STOPPED), ("resume", PENDING),
    ):  # fmt: skip
        assert endpoint.refused("one.vm.action", action, vm, session=bob)[0] == 512
        endpoint.ok("one.vm.action", action, vm, session=ann)
        endpoint.reaches(vm, end)
    endpoint.ok("one.vm.update", vm, 'MERKAT_BID_CPU="9"', 1, session=ann)
    assert endpoint.refused("one.vm.update", vm, "A=1", 1, session=bob)[0] == 512
    assert endpoint.refused("one.vm.info", vm, session=bob)[0] == 512
    assert endpoint.pool("one.vmpool.info", -2, -1, -1, -1, session=bob) == {}
    endpoint.ok("one.vm.action", "terminate", vm, session=ann)


def test_users_can_change_their_template_except_restricted_attributes(endpoint: Endpoint) -> None:
    """Bids are allowed there; budgets are not."""
    user, session = endpoint.user()
    endpoint.ok("one.user.update", user, 'MERKAT_WEIGHT="2"', 1, session=session)
    guarded = 'VM_USE_OPERATIONS="x"'
    code, text = endpoint.refused("one.user.update", user, guarded, 1, session=session)
    assert (code, "restricted attribute VM_USE_OPERATIONS" in text) == (8192, True)
    shown = endpoint.xml("one.user.info", user)
    assert shown.findtext("TEMPLATE/MERKAT_WEIGHT") == "2"
    assert shown.find("TEMPLATE/VM_USE_OPERATIONS") is None
    vm = endpoint.new(session=session)
    code, text = endpoint.refused("one.vm.update", vm, 'USER_PRIORITY="9"', 1, session=session)
    assert (code, "restricted attribute USER_PRIORITY" in text) == (8192, True)
    code, text = endpoint.refused("one.vm.allocate", SMALL + 'USER_PRIORITY="9"\n', session=session)
    assert code == 512
    assert "restricted attribute USER_PRIORITY" in text
    endpoint.new(SMALL + 'USER_PRIORITY="9"\n')


def test_users_see_only_hosts_they_may_use(endpoint: Endpoint) -> None:
    """MANAGE, which the group `users` has by default, is not USE."""
    user, session = endpoint.user()
    assert endpoint.pool("one.hostpool.info", session=session) == {}
    endpoint.allow(f"#{user}", HOST | ONE | endpoint.hosts[1], USE)
    assert list(endpoint.pool("one.hostpool.info", session=session)) == [endpoint.hosts[1]]


def test_a_schedulers_account_works_with_rules(endpoint: Endpoint) -> None:
    """It can read VMs, hosts, all placement facts, the rules themselves and the zone."""
    user, session = endpoint.user()
    _, ann = endpoint.user()
    who = f"#{user}"
    vm = endpoint.new(session=ann)
    first, second = endpoint.hosts[:2]
    assert endpoint.refused("one.vm.deploy", vm, first, session=session)[0] == 512
    endpoint.allow(who, VM | ALL, USE | MANAGE | ADMIN)
    endpoint.allow(who, HOST | ALL, USE | MANAGE)
    endpoint.allow(who, USER | GROUP | DATASTORE | CLUSTER | NET | VMGROUP | ALL, USE)
    assert endpoint.refused("one.acl.info", session=session)[0] == 512
    endpoint.allow(who, ACL | ALL, MANAGE)
    assert endpoint.refused("one.zone.raftstatus", session=session)[0] == 512
    endpoint.allow(who, ZONE | ALL, ADMIN)
    endpoint.xml("one.zone.raftstatus", session=session)
    assert list(endpoint.pool("one.vmpool.infoextended", -2, -1, -1, -1, session=session)) == [vm]
    assert set(endpoint.pool("one.hostpool.info", session=session)) == set(endpoint.hosts)
    assert {0, user} <= set(endpoint.pool("one.userpool.info", session=session))
    assert {0, 1} <= set(endpoint.pool("one.grouppool.info", session=session))
    assert 0 in endpoint.pool("one.datastorepool.info", session=session)
    assert 0 in endpoint.pool("one.clusterpool.info", session=session)
    endpoint.xml("one.hostpool.monitoring", 0, session=session)
    endpoint.xml("one.acl.info", session=session)
    endpoint.ok("one.vm.deploy", vm, first, session=session)
    endpoint.reaches(vm, RUNNING)
    endpoint.ok("one.vm.migrate", vm, second, True, session=session)
    endpoint.until(lambda: endpoint.charged() == {1: (100, 512, 1)}, "migration")
    endpoint.reaches(vm, RUNNING)
    endpoint.ok("one.vm.update", vm, 'SCHED_MESSAGE="x"', 1, session=session)
    endpoint.ok("one.vm.action", "suspend", vm, session=session)
    endpoint.reaches(vm, SUSPENDED)
    assert endpoint.refused("one.host.status", first, 1, session=session)[0] == 512
    assert endpoint.refused("one.user.update", 0, "A=1", 1, session=session)[0] == 512


def test_rules_name_user_resource_and_rights(endpoint: Endpoint) -> None:
    """They are shown as hexadecimal numbers and as text; a wrong rule is refused."""
    user, _ = endpoint.user()
    rule = endpoint.allow(f"#{user}", VM | HOST | ALL, USE | MANAGE)
    rows = {row.findtext("ID"): row for row in endpoint.xml("one.acl.info")}
    row = rows[str(rule)]
    assert row.findtext("USER") == f"{ONE | user:x}"
    assert row.findtext("RESOURCE") == f"{VM | HOST | ALL:x}"
    assert row.findtext("RIGHTS") == "3"
    assert (row.findtext("STRING") or "").startswith(f"#{user} VM+HOST/* USE+MANAGE")
    assert endpoint.refused("one.acl.addrule", "100000000", "0", "1")[0] == 8192
    assert endpoint.refused("one.acl.delrule", 987654)[0] == 8192


def test_permissions_of_a_vm_can_be_changed(endpoint: Endpoint) -> None:
    """Other users see it once they may use it; its owner can be changed."""
    user, ann = endpoint.user()
    _, bob = endpoint.user()
    vm = endpoint.new(session=ann)
    endpoint.ok("one.vm.chmod", vm, -1, -1, -1, -1, -1, -1, 1, -1, -1, session=ann)
    assert list(endpoint.pool("one.vmpool.info", -2, -1, -1, -1, session=bob)) == [vm]
    assert endpoint.refused("one.vm.action", "hold", vm, session=bob)[0] == 512
    endpoint.ok("one.vm.chown", vm, 0, 0)
    shown = endpoint.xml("one.vm.info", vm)
    assert (shown.findtext("UID"), shown.findtext("UNAME")) == ("0", "oneadmin")
    assert user != 0


LOCK_USE, LOCK_ADMIN, LOCK_ALL = 1, 3, 4


def test_locked_vms_refuse_every_call(endpoint: Endpoint) -> None:
    """The code is 512 until the VM is unlocked; the lock names its user."""
    vm = endpoint.running()
    endpoint.ok("one.vm.lock", vm, LOCK_ALL, False)
    assert endpoint.xml("one.vm.info", vm).findtext("LOCK/LOCKED") == str(LOCK_USE)
    assert endpoint.refused("one.vm.migrate", vm, endpoint.hosts[1], True) == (
        512,
        f"[one.vm.migrate] User [0] : VM is locked. [{vm}].",
    )
    endpoint.ok("one.vm.lock", vm, LOCK_ADMIN, False)
    endpoint.ok("one.vm.update", vm, "A=1", 1)
    assert endpoint.refused("one.vm.recover", vm, 4)[0] == 512
    row = endpoint.pool("one.vmpool.infoextended", -2, -1, -1, -1)[vm]
    assert row.findtext("LOCK/OWNER") == "0"
    _, session = endpoint.user()
    other = endpoint.new(session=session)
    endpoint.ok("one.vm.lock", other, LOCK_ALL, False, session=session)
    assert endpoint.refused("one.vm.action", "hold", other, session=session)[0] == 512
    endpoint.ok("one.vm.unlock", other, session=session)
    assert endpoint.xml("one.vm.info", other).find("LOCK") is None
    endpoint.ok("one.vm.action", "hold", other, session=session)
    endpoint.ok("one.vm.unlock", vm)
    assert endpoint.refused("one.vm.lock", vm, 9, False)[0] == 2048

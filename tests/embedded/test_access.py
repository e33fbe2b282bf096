"""Passwords, permissions and the access control list."""

from __future__ import annotations

import pytest

from merkatd.embedded.model.access import digest
from tests.embedded.support import SMALL, Bench, xml

VM, HOST, USER, DATASTORE = 0x1000000000, 0x2000000000, 0x10000000000, 0x100000000000
ONE, GROUP, ALL = 0x100000000, 0x200000000, 0x400000000
USE, MANAGE, ADMIN = 1, 2, 4


def rule(bench: Bench, user: int, resource: int, rights: int) -> int:
    """Add a rule in oned's format."""
    return int(bench.ok("one.acl.addrule", f"{user:x}", f"{resource:x}", f"{rights:x}"))


@pytest.mark.parametrize(
    "session", ["oneadmin:wrong", "nobody:secret", "oneadmin", ":", "", "serveradmin:"]
)
def test_a_wrong_password_fails_with_256(session: str) -> None:
    """The text is oned's, and the call has no effect."""
    bench = Bench()
    assert bench.refused("one.vm.allocate", SMALL, session=session) == (
        256,
        "[one.vm.allocate] User couldn't be authenticated, aborting call.",
    )
    assert len(bench.cloud.world.vms) == 0


def test_passwords_are_stored_as_digests() -> None:
    """The pool shows the digest, and a new password replaces the old one."""
    bench = Bench()
    ann = bench.user("ann")
    shown = xml(bench.ok("one.userpool.info")).findtext("USER[NAME='ann']/PASSWORD")
    assert shown == digest("pw")
    bench.ok("one.user.passwd", -1, "p:w2", session=ann)
    assert bench.refused("one.user.info", -1, session=ann)[0] == 256
    bench.ok("one.user.info", -1, session="ann:p:w2")


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("one.vm.deploy", (0, 0)),
        ("one.vm.migrate", (0, 1, True)),
        ("one.vm.action", ("resched", 0)),
        ("one.vm.recover", (0, 3)),
        ("one.host.update", (0, "A=1", 1)),
        ("one.host.status", (0, 1)),
        ("one.host.allocate", ("h", "kvm", "kvm", -1)),
        ("one.user.allocate", ("bob", "pw")),
        ("one.acl.addrule", ("400000000", "2400000000", "1")),
        ("one.cluster.allocate", ("c",)),
        ("one.group.allocate", ("g",)),
        ("embedded.limits.read", ()),
        ("embedded.limits.table", ()),
    ],
)
def test_ordinary_users_may_not_administer(method: str, arguments: tuple[object, ...]) -> None:
    """Administrative calls fail with 512, also for the user's own VM."""
    bench = Bench()
    ann = bench.user("ann")
    bench.new(session=ann)
    assert bench.refused(method, *arguments, session=ann)[0] == 512


def test_ordinary_users_manage_their_own_vms_only() -> None:
    """They may suspend, resume, stop, update and terminate their own VMs."""
    bench = Bench()
    ann, bob = bench.user("ann"), bench.user("bob")
    vm_id = bench.new(session=ann)
    bench.ok("one.vm.deploy", vm_id, 0)
    bench.advance(5)
    for action in ("suspend", "resume", "stop", "resume", "terminate"):
        assert bench.refused("one.vm.action", action, vm_id, session=bob)[0] == 512
        bench.ok("one.vm.action", action, vm_id, session=ann)
        bench.advance(5)
    assert bench.refused("one.vm.info", vm_id, session=bob)[1] == (
        f"[one.vm.info] User [3] : Not authorized to perform USE VM [{vm_id}]."
    )


def test_users_change_their_own_template() -> None:
    """A bid may be stored there, and restricted attributes are rejected."""
    bench = Bench()
    ann = bench.user("ann")
    bench.ok("one.user.update", 2, 'MERKAT_BID_CPU="3"', 1, session=ann)
    assert bench.refused("one.user.update", 2, "VM_ADMIN_OPERATIONS=x", 1, session=ann)[0] == 8192
    user = xml(bench.ok("one.user.info", -1, session=ann))
    assert user.findtext("TEMPLATE/MERKAT_BID_CPU") == "3"
    assert user.find("TEMPLATE/VM_ADMIN_OPERATIONS") is None
    assert bench.refused("one.user.update", 0, "A=1", 1, session=ann)[0] == 512


def test_restricted_attributes_of_vms_are_for_administrators() -> None:
    """A creation or an update by another user that sets them is rejected."""
    bench = Bench()
    ann = bench.user("ann")
    code, text = bench.refused("one.vm.allocate", f"{SMALL}\nUSER_PRIORITY=1", session=ann)
    assert (code, "USER_PRIORITY" in text) == (512, True)
    vm_id = bench.new(session=ann)
    bench.ok("one.vm.update", vm_id, "USER_PRIORITY=2", 1)
    for kind in (0, 1):
        assert (
            bench.refused("one.vm.update", vm_id, "USER_PRIORITY=9", kind, session=ann)[0] == 8192
        )
    bench.ok("one.vm.update", vm_id, "A=1", 0, session=ann)
    assert bench.vm(vm_id).user_template.get("USER_PRIORITY") == "2"


def test_a_scheduler_account_works_by_rules() -> None:
    """It needs VM use, manage and admin, HOST manage, and DATASTORE use."""
    bench = Bench()
    agent = bench.user("agent")
    vm_id = bench.new()
    who = ONE | 2
    assert bench.refused("one.vm.deploy", vm_id, 0, session=agent)[0] == 512
    rule(bench, who, VM | ALL, USE | MANAGE | ADMIN)
    bench.ok("one.vm.deploy", vm_id, 0, session=agent)
    bench.advance(5)
    assert "<ID>0</ID>" in bench.ok("one.vmpool.infoextended", -2, -1, -1, -1, session=agent)
    assert bench.ok("one.hostpool.info", session=agent) == "<HOST_POOL></HOST_POOL>"
    host_rule = rule(bench, who, HOST | ALL, USE | MANAGE)
    assert "<ID>2</ID>" in bench.ok("one.hostpool.info", session=agent)
    bench.ok("one.vm.migrate", vm_id, 1, True, session=agent)
    bench.ok("one.acl.delrule", host_rule)
    assert bench.ok("one.hostpool.info", session=agent) == "<HOST_POOL></HOST_POOL>"


def test_rules_may_name_a_group_or_a_cluster() -> None:
    """A rule covers one object, the objects of a group, or the hosts of a cluster."""
    bench = Bench()
    agent = bench.user("agent")
    cluster = int(bench.ok("one.cluster.allocate", "second"))
    bench.ok("one.cluster.addhost", cluster, 2)
    rule(bench, GROUP | 1, HOST | ONE | 0, USE)
    rule(bench, ONE | 2, HOST | 0x800000000 | cluster, USE)
    pool = xml(bench.ok("one.hostpool.info", session=agent))
    assert [host.findtext("ID") for host in pool] == ["2", "0"]


@pytest.mark.parametrize(
    ("user", "resource", "rights"),
    [
        ("0", "2400000000", "1"),
        ("400000000", "400000000", "1"),
        ("400000000", "2400000000", "0"),
        ("400000000", "2400000000", "10"),
        ("zz", "2400000000", "1"),
        ("300000000", "2400000000", "1"),
        ("400000001", "2400000000", "1"),
    ],
)
def test_malformed_rules_are_rejected(user: str, resource: str, rights: str) -> None:
    """They fail with 8192, and no rule is stored."""
    bench = Bench()
    code, text = bench.refused("one.acl.addrule", user, resource, rights)
    assert (code, "malformed" in text) == (8192, True)
    assert len(bench.cloud.world.rules) == 6


def test_duplicate_rules_and_deletions_are_rejected() -> None:
    """A second equal rule fails, and so does a second deletion."""
    bench = Bench()
    number = rule(bench, ALL, HOST | ALL, USE)
    assert bench.refused("one.acl.addrule", "400000000", "2400000000", "1")[0] == 8192
    assert bench.ok("one.acl.delrule", number) == number
    assert bench.refused("one.acl.delrule", number)[0] == 8192


def test_group_members_have_the_groups_rights() -> None:
    """A VM's group permission opens it to the group, in calls and in pools."""
    bench = Bench()
    ann, bob = bench.user("ann"), bench.user("bob")
    vm_id = bench.new(session=ann)
    assert bench.ok("one.vmpool.info", -2, -1, -1, -1, session=bob) == "<VM_POOL></VM_POOL>"
    bench.ok("one.vm.chmod", vm_id, -1, -1, -1, 1, -1, -1, -1, -1, -1, session=ann)
    assert "<ID>0</ID>" in bench.ok("one.vmpool.info", -2, -1, -1, -1, session=bob)
    bench.ok("one.vm.info", vm_id, session=bob)


def test_owner_and_group_can_be_changed() -> None:
    """The new owner and group are shown with their names."""
    bench = Bench()
    bench.user("ann")
    team = int(bench.ok("one.group.allocate", "team"))
    assert team == 100
    vm_id = bench.new()
    bench.ok("one.vm.chown", vm_id, 2, team)
    bench.ok("one.vm.rename", vm_id, "web 1 (ü)")
    shown = xml(bench.ok("one.vm.info", vm_id))
    assert [shown.findtext(tag) for tag in ("UNAME", "GNAME", "NAME")] == [
        "ann",
        "team",
        "web 1 (ü)",
    ]
    bench.ok("one.user.chgrp", 2, team)
    groups = xml(bench.ok("one.grouppool.info"))
    assert groups.findtext("GROUP[NAME='team']/USERS/ID") == "2"
    assert bench.refused("one.vm.chown", vm_id, 77, -1)[0] == 1024


def test_secondary_groups_have_rights() -> None:
    """A VM's permissions for its group and rules apply to them as to the user's main group."""
    bench = Bench()
    team = int(bench.ok("one.group.allocate", "team"))
    ann, bob = bench.user("ann"), bench.user("bob")
    vm = bench.new(session=ann)
    bench.ok("one.vm.chown", vm, -1, team)
    bench.ok("one.vm.chmod", vm, -1, -1, -1, 1, -1, -1, -1, -1, -1)
    assert bench.refused("one.vm.info", vm, session=bob)[0] == 512
    assert bench.refused("one.host.info", 0, session=bob)[0] == 512
    user = bench.cloud.world.users.named("bob")
    assert user is not None
    bench.ok("one.user.addgroup", user.id, team)
    bench.ok("one.vm.info", vm, session=bob)
    rule(bench, GROUP | team, HOST | ALL, USE)
    bench.ok("one.host.info", 0, session=bob)

"""OpenNebula applies the owners' rights to VMs that the daemon creates for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from twisted.internet.defer import DeferredList, ensureDeferred

from merkatd.cluster import Create
from merkatd.embedded.model.settings import VM_RESTRICTED, EmbeddedSettings
from merkatd.opennebula import Client, OpenNebulaCloud
from merkatd.scheduler.base.ports import ReplyKind, StepReply
from tests.contract.conftest import HOSTS, in_memory
from tests.contract.endpoint import SMALL, Endpoint
from tests.contract.test_rights import ADMIN, ALL, GROUP, MANAGE, USE, USER, VM
from tests.contract.ways import DONE

if TYPE_CHECKING:
    from typing import Any

    from twisted.internet.defer import Deferred

LOGIN, USERS = "one.user.login", 1
READY = "1"


def adapter(endpoint: Endpoint) -> OpenNebulaCloud:
    """Return the daemon's adapter, as oneadmin."""
    client = Client(endpoint.transport, endpoint.admin, endpoint.clock)
    return OpenNebulaCloud(client, endpoint.clock, endpoint.executor)


def step(owner: int, key: str, text: str = "") -> Create:
    """Return the step that creates a small VM."""
    return Create(period=1, reason="", key=key, template=SMALL + text, owner=owner)


def made(endpoint: Endpoint, owner: int, text: str = "") -> StepReply:
    """Return the reply to the step."""
    return endpoint.run(adapter(endpoint).send(step(owner, endpoint.name(), text)))


def tokens(endpoint: Endpoint, user: int) -> int:
    """Return how many login tokens a user has."""
    return len(endpoint.xml("one.user.info", user).findall("LOGIN_TOKEN"))


def vms(endpoint: Endpoint) -> int:
    """Return the number of VMs."""
    return len(endpoint.pool("one.vmpool.info", -2, -1, -1, -1))


def test_a_vm_belongs_to_its_owner_from_the_start(endpoint: Endpoint) -> None:
    """It has the owner's group, and no token remains."""
    user, _ = endpoint.user()
    reply = made(endpoint, user)
    assert reply.answer is ReplyKind.ACCEPTED
    shown = endpoint.xml("one.vm.info", reply.vm)
    assert (shown.findtext("UID"), shown.findtext("GID")) == (str(user), "1")
    assert tokens(endpoint, user) == 0


@pytest.mark.parametrize(
    "text", ['RAW\n=[DATA="x"]', 'RAW # x\n =[DATA="x"]', 'A="x" EMULATOR=y', 'CONTEXT=[FILES="x"]']
)
def test_attributes_restricted_for_the_owner_are_refused(endpoint: Endpoint, text: str) -> None:
    """OpenNebula's text is returned, though the daemon may set them; no VM is created."""
    user, _ = endpoint.user()
    reply = made(endpoint, user, text)
    assert reply.answer is ReplyKind.REFUSED
    assert "includes a restricted attribute" in reply.why
    assert (vms(endpoint), tokens(endpoint, user)) == (0, 0)


@pytest.mark.parametrize("written", ["{}", " {}", "+{}", "0000000{}"])
def test_objects_without_rights_for_the_owner_are_refused(endpoint: Endpoint, written: str) -> None:
    """The VM group of another user would apply its rules to the VMs."""
    text = f'NAME="{endpoint.name()}"\nROLE=[NAME="a"]'
    group = endpoint.ok("one.vmgroup.allocate", text)
    user, _ = endpoint.user()
    wanted = f'VMGROUP=[VMGROUP_ID="{written.format(group)}",ROLE="a"]'
    reply = made(endpoint, user, wanted)
    assert (reply.answer, "VMGROUP" in reply.why) == (ReplyKind.REFUSED, True), reply.why
    assert vms(endpoint) == 0
    assert made(endpoint, 0, wanted.replace(written.format(group), str(group))).vm is not None


def test_many_vms_of_one_owner_share_a_token(endpoint: Endpoint) -> None:
    """OpenNebula allows ten tokens, but sixteen VMs are created at once."""
    user, _ = endpoint.user()
    cloud = adapter(endpoint)
    cloud_steps = [step(user, endpoint.name()) for _ in range(16)]

    async def together() -> Any:
        sent: list[Deferred[StepReply]] = [ensureDeferred(cloud.send(step)) for step in cloud_steps]
        return await DeferredList(sent, fireOnOneErrback=True, consumeErrors=True)

    answers = [reply.answer for _, reply in endpoint.run(together())]
    assert answers == [ReplyKind.ACCEPTED] * 16
    assert (vms(endpoint), tokens(endpoint, user)) == (16, 0)


def test_other_tokens_remain(endpoint: Endpoint) -> None:
    """They are the user's own, and one of a daemon that died; with ten the creation waits."""
    user, ann = endpoint.user()
    name = ann.partition(":")[0]
    for number in range(9):
        endpoint.ok(LOGIN, name, f"own{number}", 300, USERS)
    assert made(endpoint, user).answer is ReplyKind.ACCEPTED
    assert tokens(endpoint, user) == 9
    endpoint.ok(LOGIN, name, "tenth", 300, USERS)
    reply = made(endpoint, user)
    assert (reply.answer, "too many login tokens" in reply.why) == (ReplyKind.REFUSED, True)
    endpoint.ok(LOGIN, name, "tenth", 0)
    assert made(endpoint, user).answer is ReplyKind.ACCEPTED


@pytest.mark.parametrize(
    ("text", "why"),
    [("CPU=3\nMEMORY=64\n", "limit of 2 reached for CPU"), (SMALL, "limit of 1 reached for VMS")],
)
def test_an_owners_quota_limits_vms_created_for_the_owner(
    endpoint: Endpoint, text: str, why: str
) -> None:
    """It applies as if the owner created them; the daemon itself has no quota."""
    user, ann = endpoint.user()
    endpoint.ok("one.user.quota", user, 'VM=[VMS="1",CPU="2",MEMORY="9999"]')
    assert endpoint.refused("one.user.quota", user, 'VM=[VMS="9"]', session=ann)[0] == 512
    if "VMS" in why:
        assert made(endpoint, user).answer is ReplyKind.ACCEPTED
    before = vms(endpoint)
    order = Create(period=1, reason="", key=endpoint.name(), template=text, owner=user)
    reply = endpoint.run(adapter(endpoint).send(order))
    assert (reply.answer, why in reply.why) == (ReplyKind.REFUSED, True), reply.why
    assert endpoint.refused("one.vm.allocate", text, False, session=ann) == (
        512,
        f"[one.vm.allocate] User [{user}] : user [{user}] {why} quota in VM.",
    )
    assert (vms(endpoint), tokens(endpoint, user)) == (before, 0)


def test_a_quota_is_released_with_the_vm(endpoint: Endpoint) -> None:
    """The user's information shows the use, too."""
    user, _ = endpoint.user()
    endpoint.ok("one.user.quota", user, 'VM=[VMS="1"]')
    first = made(endpoint, user).vm
    shown = endpoint.xml("one.user.info", user)
    assert shown.findtext("VM_QUOTA/VM/VMS_USED") == "1"
    assert shown.findtext("VM_QUOTA/VM/CPU") == "-1"
    endpoint.ok("one.vm.recover", first, 3)
    endpoint.until(lambda: endpoint.state(first or 0) == DONE, "its end")
    assert made(endpoint, user).answer is ReplyKind.ACCEPTED


def private_image(endpoint: Endpoint) -> tuple[int, str]:
    """Create another user's image; return its id and the attribute that uses it."""
    text = f'NAME="{endpoint.name()}"\nTYPE="DATABLOCK"\nSIZE="9"\nFORMAT="raw"\n'
    oid = int(endpoint.ok("one.image.allocate", text, 1, True))
    endpoint.until(
        lambda: endpoint.xml("one.image.info", oid).findtext("STATE") == READY, "it is ready"
    )
    return oid, f'DISK=[IMAGE_ID="{oid}"]'


def give_to_group(endpoint: Endpoint, image: int, group: int) -> None:
    """Let a group use an image."""
    endpoint.ok("one.image.chown", image, -1, group)
    endpoint.ok("one.image.chmod", image, 1, 1, 0, 1, 0, 0, 0, 0, 0)


def refused_use(endpoint: Endpoint, user: int, wanted: str) -> None:
    """Check that a VM for this user is refused, without a new VM or a token left."""
    reply = made(endpoint, user, wanted)
    assert reply.answer is ReplyKind.REFUSED
    assert "Not authorized to perform USE" in reply.why
    assert (vms(endpoint), tokens(endpoint, user)) == (0, 0)


def test_anothers_private_image_is_refused(endpoint: Endpoint) -> None:
    """It is accepted once the owner's group may use it."""
    user, _ = endpoint.user()
    image, wanted = private_image(endpoint)
    refused_use(endpoint, user, wanted)
    give_to_group(endpoint, image, USERS)
    assert made(endpoint, user, wanted).answer is ReplyKind.ACCEPTED


def test_rights_of_a_secondary_group_are_not_enough(endpoint: Endpoint) -> None:
    """A token for the owner's own group has only that group's rights."""
    group = endpoint.ok("one.group.allocate", endpoint.name())
    user, ann = endpoint.user((USERS, group))
    image, wanted = private_image(endpoint)
    give_to_group(endpoint, image, group)
    refused_use(endpoint, user, wanted)
    assert endpoint.new(SMALL + wanted, ann) >= 0


def without_tokens(**changes: Any) -> Endpoint:
    """Return a cloud whose site forbids login tokens."""
    cloud = in_memory(EmbeddedSettings(token_s=0, **changes))
    cloud.add_hosts(HOSTS)
    return cloud


def test_without_tokens_the_vm_is_given_to_its_owner() -> None:
    """The daemon creates it and then changes the owner."""
    cloud = without_tokens()
    user, _ = cloud.user()
    reply = made(cloud, user, 'CONTEXT=[NETWORK="YES"]')
    assert reply.answer is ReplyKind.ACCEPTED
    shown = cloud.xml("one.vm.info", reply.vm)
    assert (shown.findtext("UID"), shown.findtext("GID")) == (str(user), "1")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('RAW # x\n =[DATA="x"]', "RAW is for administrators"),
        ('A="x" EMULATOR=y', "EMULATOR is for administrators"),
        ('SITE=[RACK="7"]', "RACK is for administrators"),
        ('NIC=[NETWORK="secret"]', "use IMAGE_ID and NETWORK_ID"),
        ('DISK=[IMAGE_ID="+12"]', "must be a whole number"),
        ('CONTEXT=[A="$\nUSER[SSH_PRIVATE_KEY]"]', "data of the daemon's account"),
        ('CONTEXT=[A="$NETWORK[DNS, NETWORK=x]"]', "data of the daemon's account"),
        ('CONTEXT=[A="$UNAME"]', "data of the daemon's account"),
        ("A=[", "Parse error"),
    ],
)
def test_without_tokens_the_daemon_lends_no_rights(text: str, why: str) -> None:
    """The site's own restricted attributes count too; the text names the missing token."""
    cloud = without_tokens(vm_restricted=VM_RESTRICTED | {"SITE/RACK"})
    user, _ = cloud.user()
    reply = made(cloud, user, text)
    assert reply.answer is ReplyKind.REFUSED
    assert why in reply.why
    assert "no login token for the owner" in reply.why
    assert vms(cloud) == 0


def test_without_tokens_a_vm_that_its_owner_may_not_have_ends() -> None:
    """No VM of the daemon's account is left running, and a later attempt creates it."""
    cloud = without_tokens()
    user, _ = cloud.user()
    fault = {"kind": "refuse", "method": "one.vm.chown", "code": 512, "text": "limit of 1 reached"}
    number = cloud.ok("embedded.fault.add", fault)
    wanted = step(user, cloud.name())
    for _ in range(2):
        reply = cloud.run(adapter(cloud).send(wanted))
        assert (reply.answer, "limit of 1" in reply.why) == (ReplyKind.REFUSED, True)
        assert vms(cloud) == 0
    cloud.ok("embedded.fault.remove", number)
    reply = cloud.run(adapter(cloud).send(wanted))
    assert reply.answer is ReplyKind.ACCEPTED
    assert cloud.xml("one.vm.info", reply.vm).findtext("UID") == str(user)


def test_a_vm_of_another_owner_is_not_ended() -> None:
    """An administrator may have given it away before the daemon received its id."""
    cloud = without_tokens()
    (user, _), (other, _) = cloud.user(), cloud.user()
    wanted = step(user, cloud.name())
    vm = cloud.run(adapter(cloud).send(wanted)).vm
    cloud.ok("one.vm.chown", vm, other, -1)
    cloud.ok("embedded.fault.add", {"kind": "refuse", "method": "one.vm.chown", "code": 512})
    assert cloud.run(adapter(cloud).send(wanted)).answer is ReplyKind.REFUSED
    assert vms(cloud) == 1


def test_without_tokens_administrators_keep_their_rights() -> None:
    """OpenNebula would refuse them nothing."""
    cloud = without_tokens()
    user, _ = cloud.user((0,))
    assert made(cloud, user, "EMULATOR=y").answer is ReplyKind.ACCEPTED


def test_an_account_with_rules_changes_the_owner_of_its_vms(endpoint: Endpoint) -> None:
    """OpenNebula gives it no tokens for users of other groups, and checks the account itself."""
    group = endpoint.ok("one.group.allocate", endpoint.name())
    account, session = endpoint.user()
    user, _ = endpoint.user((group,))
    endpoint.allow(f"#{account}", VM | ALL, USE | MANAGE | ADMIN)
    endpoint.allow(f"#{account}", USER | GROUP | ALL, USE | MANAGE)
    cloud = OpenNebulaCloud(
        Client(endpoint.transport, session, endpoint.clock), endpoint.clock, endpoint.executor
    )
    reply = endpoint.run(cloud.send(step(user, endpoint.name())))
    assert reply.answer is ReplyKind.ACCEPTED, reply.why
    shown = endpoint.xml("one.vm.info", reply.vm)
    assert (shown.findtext("UID"), shown.findtext("GID")) == (str(user), str(group))
    refused = endpoint.run(cloud.send(step(user, endpoint.name(), 'TOPOLOGY=[PIN_POLICY="CORE"]')))
    assert refused.answer is ReplyKind.REFUSED
    assert vms(endpoint) == 1

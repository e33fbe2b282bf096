"""VMs that the daemon makes for others: OpenNebula judges them as if their owners made them."""

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
    """The daemon's side, as oneadmin."""
    client = Client(endpoint.transport, endpoint.admin, endpoint.clock)
    return OpenNebulaCloud(client, endpoint.clock, endpoint.executor)


def step(owner: int, key: str, text: str = "") -> Create:
    """The order to make a small VM."""
    return Create(period=1, reason="", key=key, template=SMALL + text, owner=owner)


def made(endpoint: Endpoint, owner: int, text: str = "") -> StepReply:
    """The answer to the order."""
    return endpoint.run(adapter(endpoint).send(step(owner, endpoint.name(), text)))


def tokens(endpoint: Endpoint, user: int) -> int:
    """Return how many login tokens a user has."""
    return len(endpoint.xml("one.user.info", user).findall("LOGIN_TOKEN"))


def vms(endpoint: Endpoint) -> int:
    """Return how many VMs there are."""
    return len(endpoint.pool("one.vmpool.info", -2, -1, -1, -1))


def test_a_vm_is_its_owners_from_the_start(endpoint: Endpoint) -> None:
    """With the owner's group; no token is left."""
    user, _ = endpoint.user()
    found = made(endpoint, user)
    assert found.answer is ReplyKind.ACCEPTED
    shown = endpoint.xml("one.vm.info", found.vm)
    assert (shown.findtext("UID"), shown.findtext("GID")) == (str(user), "1")
    assert tokens(endpoint, user) == 0


@pytest.mark.parametrize(
    "text", ['RAW\n=[DATA="x"]', 'RAW # x\n =[DATA="x"]', 'A="x" EMULATOR=y', 'CONTEXT=[FILES="x"]']
)
def test_what_its_owner_may_not_set_is_refused(endpoint: Endpoint, text: str) -> None:
    """With OpenNebula's words, though the daemon may set it; no VM is made, no token left."""
    user, _ = endpoint.user()
    found = made(endpoint, user, text)
    assert found.answer is ReplyKind.REFUSED
    assert "includes a restricted attribute" in found.why
    assert (vms(endpoint), tokens(endpoint, user)) == (0, 0)


@pytest.mark.parametrize("written", ["{}", " {}", "+{}", "0000000{}"])
def test_what_its_owner_may_not_use_is_refused(endpoint: Endpoint, written: str) -> None:
    """A VM group of another user, whose rules its VMs would be put under."""
    text = f'NAME="{endpoint.name()}"\nROLE=[NAME="a"]'
    group = endpoint.ok("one.vmgroup.allocate", text)
    user, _ = endpoint.user()
    wanted = f'VMGROUP=[VMGROUP_ID="{written.format(group)}",ROLE="a"]'
    found = made(endpoint, user, wanted)
    assert (found.answer, "VMGROUP" in found.why) == (ReplyKind.REFUSED, True), found.why
    assert vms(endpoint) == 0
    assert made(endpoint, 0, wanted.replace(written.format(group), str(group))).vm is not None


def test_many_vms_of_one_owner_share_a_token(endpoint: Endpoint) -> None:
    """OpenNebula allows ten tokens: sixteen VMs at once are made nevertheless."""
    user, _ = endpoint.user()
    cloud = adapter(endpoint)
    cloud_steps = [step(user, endpoint.name()) for _ in range(16)]

    async def together() -> Any:
        sent: list[Deferred[StepReply]] = [ensureDeferred(cloud.send(one)) for one in cloud_steps]
        return await DeferredList(sent, fireOnOneErrback=True, consumeErrors=True)

    answers = [reply.answer for _, reply in endpoint.run(together())]
    assert answers == [ReplyKind.ACCEPTED] * 16
    assert (vms(endpoint), tokens(endpoint, user)) == (16, 0)


def test_tokens_of_others_stay(endpoint: Endpoint) -> None:
    """The user's own, and one that a daemon left when it died; with ten the creation waits."""
    user, ann = endpoint.user()
    name = ann.partition(":")[0]
    for number in range(9):
        endpoint.ok(LOGIN, name, f"own{number}", 300, USERS)
    assert made(endpoint, user).answer is ReplyKind.ACCEPTED
    assert tokens(endpoint, user) == 9
    endpoint.ok(LOGIN, name, "tenth", 300, USERS)
    found = made(endpoint, user)
    assert (found.answer, "too many login tokens" in found.why) == (ReplyKind.REFUSED, True)
    endpoint.ok(LOGIN, name, "tenth", 0)
    assert made(endpoint, user).answer is ReplyKind.ACCEPTED


@pytest.mark.parametrize(
    ("text", "why"),
    [("CPU=3\nMEMORY=64\n", "limit of 2 reached for CPU"), (SMALL, "limit of 1 reached for VMS")],
)
def test_an_owners_quota_bounds_what_is_made_for_it(
    endpoint: Endpoint, text: str, why: str
) -> None:
    """As if the owner made it; the daemon itself has no quota."""
    user, ann = endpoint.user()
    endpoint.ok("one.user.quota", user, 'VM=[VMS="1",CPU="2",MEMORY="9999"]')
    assert endpoint.refused("one.user.quota", user, 'VM=[VMS="9"]', session=ann)[0] == 512
    if "VMS" in why:
        assert made(endpoint, user).answer is ReplyKind.ACCEPTED
    before = vms(endpoint)
    order = Create(period=1, reason="", key=endpoint.name(), template=text, owner=user)
    found = endpoint.run(adapter(endpoint).send(order))
    assert (found.answer, why in found.why) == (ReplyKind.REFUSED, True), found.why
    assert endpoint.refused("one.vm.allocate", text, False, session=ann) == (
        512,
        f"[one.vm.allocate] User [{user}] : user [{user}] {why} quota in VM.",
    )
    assert (vms(endpoint), tokens(endpoint, user)) == (before, 0)


def test_room_in_a_quota_comes_back_with_the_vm(endpoint: Endpoint) -> None:
    """What the user's page shows as used, too."""
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
    """Another's image, with what a template says to use it."""
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
    """A VM for this user is refused for what it would use; no VM is made, no token left."""
    found = made(endpoint, user, wanted)
    assert found.answer is ReplyKind.REFUSED
    assert "Not authorized to perform USE" in found.why
    assert (vms(endpoint), tokens(endpoint, user)) == (0, 0)


def test_anothers_private_image_is_refused(endpoint: Endpoint) -> None:
    """Until the owner's group may use it."""
    user, _ = endpoint.user()
    image, wanted = private_image(endpoint)
    refused_use(endpoint, user, wanted)
    give_to_group(endpoint, image, USERS)
    assert made(endpoint, user, wanted).answer is ReplyKind.ACCEPTED


def test_what_only_a_secondary_group_may_use_is_refused(endpoint: Endpoint) -> None:
    """A token for the owner's own group has the rights of that group alone; the owner has both."""
    group = endpoint.ok("one.group.allocate", endpoint.name())
    user, ann = endpoint.user((USERS, group))
    image, wanted = private_image(endpoint)
    give_to_group(endpoint, image, group)
    refused_use(endpoint, user, wanted)
    assert endpoint.new(SMALL + wanted, ann) >= 0


def without_tokens(**changes: Any) -> Endpoint:
    """A cloud whose site forbids login tokens."""
    cloud = in_memory(EmbeddedSettings(token_s=0, **changes))
    cloud.add_hosts(HOSTS)
    return cloud


def test_where_a_site_forbids_tokens_the_vm_is_given_to_its_owner() -> None:
    """The daemon makes it."""
    cloud = without_tokens()
    user, _ = cloud.user()
    found = made(cloud, user, 'CONTEXT=[NETWORK="YES"]')
    assert found.answer is ReplyKind.ACCEPTED
    shown = cloud.xml("one.vm.info", found.vm)
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
def test_where_a_site_forbids_tokens_the_daemon_lends_no_rights(text: str, why: str) -> None:
    """The site's own restricted attributes count too; the answer says that there is no login."""
    cloud = without_tokens(vm_restricted=VM_RESTRICTED | {"SITE/RACK"})
    user, _ = cloud.user()
    found = made(cloud, user, text)
    assert found.answer is ReplyKind.REFUSED
    assert why in found.why
    assert "no login token for the owner" in found.why
    assert vms(cloud) == 0


def test_where_a_site_forbids_tokens_administrators_keep_their_rights() -> None:
    """OpenNebula would refuse them nothing."""
    cloud = without_tokens()
    user, _ = cloud.user((0,))
    assert made(cloud, user, "EMULATOR=y").answer is ReplyKind.ACCEPTED


def test_an_account_that_works_by_rules_gives_its_own_vms_away(endpoint: Endpoint) -> None:
    """OpenNebula gives it no tokens of users of other groups; it refuses the account itself."""
    group = endpoint.ok("one.group.allocate", endpoint.name())
    account, session = endpoint.user()
    user, _ = endpoint.user((group,))
    endpoint.allow(f"#{account}", VM | ALL, USE | MANAGE | ADMIN)
    endpoint.allow(f"#{account}", USER | GROUP | ALL, USE | MANAGE)
    cloud = OpenNebulaCloud(
        Client(endpoint.transport, session, endpoint.clock), endpoint.clock, endpoint.executor
    )
    found = endpoint.run(cloud.send(step(user, endpoint.name())))
    assert found.answer is ReplyKind.ACCEPTED, found.why
    shown = endpoint.xml("one.vm.info", found.vm)
    assert (shown.findtext("UID"), shown.findtext("GID")) == (str(user), str(group))
    refused = endpoint.run(cloud.send(step(user, endpoint.name(), 'TOPOLOGY=[PIN_POLICY="CORE"]')))
    assert refused.answer is ReplyKind.REFUSED
    assert vms(endpoint) == 1

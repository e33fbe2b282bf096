"""VMs that the daemon makes for others: OpenNebula judges them as if their owners made them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from twisted.internet.defer import DeferredList, ensureDeferred

from merkatd.cluster import Create
from merkatd.embedded.settings import VM_RESTRICTED, Settings
from merkatd.opennebula import Client, OpenNebulaCloud
from merkatd.scheduler.ports import Answer, Reply

from .conftest import HOSTS, in_memory
from .endpoint import SMALL, Endpoint
from .test_rights import ADMIN, ALL, GROUP, MANAGE, USE, USER, VM

if TYPE_CHECKING:
    from typing import Any

    from twisted.internet.defer import Deferred

LOGIN, USERS = "one.user.login", 1


def adapter(endpoint: Endpoint) -> OpenNebulaCloud:
    """The daemon's side, as oneadmin."""
    client = Client(endpoint.transport, endpoint.admin, endpoint.clock)
    return OpenNebulaCloud(client, endpoint.clock, endpoint.executor)


def step(owner: int, key: str, text: str = "") -> Create:
    """The order to make a small VM."""
    return Create(period=1, reason="", key=key, template=SMALL + text, owner=owner)


def made(endpoint: Endpoint, owner: int, text: str = "") -> Reply:
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
    assert found.answer is Answer.ACCEPTED
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
    assert found.answer is Answer.REFUSED
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
    assert (found.answer, "VMGROUP" in found.why) == (Answer.REFUSED, True), found.why
    assert vms(endpoint) == 0
    assert made(endpoint, 0, wanted.replace(written.format(group), str(group))).vm is not None


def test_many_vms_of_one_owner_share_a_token(endpoint: Endpoint) -> None:
    """OpenNebula allows ten tokens: sixteen VMs at once are made nevertheless."""
    user, _ = endpoint.user()
    cloud = adapter(endpoint)
    cloud_steps = [step(user, endpoint.name()) for _ in range(16)]

    async def together() -> Any:
        sent: list[Deferred[Reply]] = [ensureDeferred(cloud.send(one)) for one in cloud_steps]
        return await DeferredList(sent, fireOnOneErrback=True, consumeErrors=True)

    answers = [reply.answer for _, reply in endpoint.run(together())]
    assert answers == [Answer.ACCEPTED] * 16
    assert (vms(endpoint), tokens(endpoint, user)) == (16, 0)


def test_tokens_of_others_stay(endpoint: Endpoint) -> None:
    """The user's own, and one that a daemon left when it died; with ten the creation waits."""
    user, ann = endpoint.user()
    name = ann.partition(":")[0]
    for number in range(9):
        endpoint.ok(LOGIN, name, f"own{number}", 300, USERS)
    assert made(endpoint, user).answer is Answer.ACCEPTED
    assert tokens(endpoint, user) == 9
    endpoint.ok(LOGIN, name, "tenth", 300, USERS)
    found = made(endpoint, user)
    assert (found.answer, "too many login tokens" in found.why) == (Answer.REFUSED, True)
    endpoint.ok(LOGIN, name, "tenth", 0)
    assert made(endpoint, user).answer is Answer.ACCEPTED


def without_tokens(**changes: Any) -> Endpoint:
    """A cloud whose site forbids login tokens."""
    cloud = in_memory(Settings(token_s=0, **changes))
    cloud.add_hosts(HOSTS)
    return cloud


def test_where_a_site_forbids_tokens_the_vm_is_given_to_its_owner() -> None:
    """The daemon makes it."""
    cloud = without_tokens()
    user, _ = cloud.user()
    found = made(cloud, user, 'CONTEXT=[NETWORK="YES"]')
    assert found.answer is Answer.ACCEPTED
    shown = cloud.xml("one.vm.info", found.vm)
    assert (shown.findtext("UID"), shown.findtext("GID")) == (str(user), "1")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('RAW # x\n =[DATA="x"]', "RAW is for administrators"),
        ('A="x" EMULATOR=y', "EMULATOR is for administrators"),
        ('SITE=[RACK="7"]', "RACK is for administrators"),
        ('NIC=[NETWORK="secret"]', "by IMAGE_ID and NETWORK_ID"),
        ('DISK=[IMAGE_ID="+12"]', "an id is a whole number"),
        ('CONTEXT=[A="$\nUSER[SSH_PRIVATE_KEY]"]', "may see"),
        ('CONTEXT=[A="$NETWORK[DNS, NETWORK=x]"]', "may see"),
        ('CONTEXT=[A="$UNAME"]', "may see"),
        ("A=[", "Parse error"),
    ],
)
def test_where_a_site_forbids_tokens_the_daemon_lends_no_rights(text: str, why: str) -> None:
    """The site's own restricted attributes count too; the answer says that there is no login."""
    cloud = without_tokens(vm_restricted=VM_RESTRICTED | {"SITE/RACK"})
    user, _ = cloud.user()
    found = made(cloud, user, text)
    assert found.answer is Answer.REFUSED
    assert why in found.why
    assert "no login of the owner" in found.why
    assert vms(cloud) == 0


def test_where_a_site_forbids_tokens_administrators_keep_their_rights() -> None:
    """OpenNebula would refuse them nothing."""
    cloud = without_tokens()
    user, _ = cloud.user((0,))
    assert made(cloud, user, "EMULATOR=y").answer is Answer.ACCEPTED


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
    assert found.answer is Answer.ACCEPTED, found.why
    shown = endpoint.xml("one.vm.info", found.vm)
    assert (shown.findtext("UID"), shown.findtext("GID")) == (str(user), str(group))
    refused = endpoint.run(cloud.send(step(user, endpoint.name(), 'TOPOLOGY=[PIN_POLICY="CORE"]')))
    assert refused.answer is Answer.REFUSED
    assert vms(endpoint) == 1

"""Owners' login tokens never exist longer than needed, also after lost answers."""

from collections.abc import Iterator

import pytest
from twisted.internet.defer import ensureDeferred

from merkatd.opennebula.owner_tokens import LIFE_S, Owner, Owners, owner_of
from merkatd.scheduler.base.ports import CloudUnreachableError
from tests.scheduler.frontend import Frontend

TEMPLATE = "CPU=1\nMEMORY=64\n"


@pytest.fixture
def frontend() -> Iterator[Frontend]:
    """Yield a cloud."""
    made = Frontend()
    yield made
    made.close()


class Names:
    """Users of the cloud with their tokens."""

    def __init__(self, frontend: Frontend) -> None:
        self.frontend = frontend
        self.owners = Owners(frontend.client, frontend.clock)
        users = frontend.cloud.world.users
        frontend.user("ann")
        frontend.user("bob")
        self.ann, self.bob = (
            Owner(user.id, user.name, user.groups[0], admin=False)
            for user in (users.named("ann"), users.named("bob"))
            if user is not None
        )

    def allocate(self, owner: Owner) -> int:
        """Create a VM in the owner's name."""
        made: int = self.frontend.result(ensureDeferred(self.owners.allocate(owner, TEMPLATE)))
        return made

    def tokens(self, owner: Owner) -> int:
        """Return the number of the owner's tokens in OpenNebula."""
        user = self.frontend.cloud.world.users.named(owner.name)
        assert user is not None
        return len(user.tokens)

    def lose(self, count: int) -> None:
        """Lose the answers to a number of token calls."""
        fault = {"kind": "lose", "method": "one.user.login", "count": count}
        self.frontend.bench.ok("embedded.fault.add", fault)


def test_the_texts_of_an_owner_are_not_parsed() -> None:
    """They may take half a second, and contain a forged record."""
    record = "<USER><ID>7</ID><GID>1</GID><GROUPS><ID>1</ID></GROUPS><NAME>ann</NAME>"
    texts = "<TEMPLATE><A></USER><USER><ID>0</ID>" + "<A>" * 100
    assert owner_of(record + texts) == Owner(7, "ann", 1, admin=False)
    assert owner_of(record.replace("<ID>1<", "<ID>0<") + "</USER>") == Owner(
        7, "ann", 1, admin=True
    )


def test_a_token_ends_with_the_last_vm_created_with_it(frontend: Frontend) -> None:
    """No token remains."""
    names = Names(frontend)
    assert names.allocate(names.ann) >= 0
    assert names.tokens(names.ann) == 0


def test_a_token_with_an_unanswered_creation_is_ended(frontend: Frontend) -> None:
    """This happens before the next one is created, because an owner may have ten at most."""
    names = Names(frontend)
    for _ in range(12):
        names.lose(1)
        with pytest.raises(CloudUnreachableError):
            names.allocate(names.ann)
    assert names.tokens(names.ann) <= 1
    assert names.allocate(names.bob) >= 0
    assert (names.tokens(names.ann), names.tokens(names.bob)) == (0, 0)


def test_an_unknown_token_is_searched_until_it_would_have_expired(frontend: Frontend) -> None:
    """OpenNebula may create it late."""
    names = Names(frontend)
    fault = {"kind": "refuse", "method": "one.user.login", "count": 1, "code": -1}
    names.lose(1)
    with pytest.raises(CloudUnreachableError):
        names.allocate(names.ann)
    frontend.bench.ok("embedded.fault.add", fault)
    assert names.allocate(names.bob) >= 0
    assert names.tokens(names.ann) == 1, "the call to end it was rejected"
    assert names.allocate(names.bob) >= 0
    assert names.tokens(names.ann) == 0
    names.lose(1)
    with pytest.raises(CloudUnreachableError):
        names.allocate(names.ann)
    frontend.clock.advance(LIFE_S)
    assert names.allocate(names.bob) >= 0
    assert names.owners._unanswered == []

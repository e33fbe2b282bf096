"""Login tokens of owners: none is left longer than it is needed, also where answers were lost."""

from collections.abc import Iterator

import pytest
from twisted.internet.defer import ensureDeferred

from merkatd.opennebula.owner_tokens import LIFE_S, Owner, Owners
from merkatd.scheduler.base.ports import CloudUnreachableError
from tests.scheduler.frontend import Frontend

TEMPLATE = "CPU=1\nMEMORY=64\n"


@pytest.fixture
def frontend() -> Iterator[Frontend]:
    """A cloud."""
    made = Frontend()
    yield made
    made.close()


class Names:
    """Users of the cloud, and the tokens that they have."""

    def __init__(self, frontend: Frontend) -> None:
        self.frontend = frontend
        self.owners = Owners(frontend.client, frontend.clock)
        users = frontend.cloud.world.users
        frontend.user("ann")
        frontend.user("bob")
        self.ann, self.bob = (
            Owner(one.id, one.name, one.groups[0], admin=False)
            for one in (users.named("ann"), users.named("bob"))
            if one is not None
        )

    def allocate(self, owner: Owner) -> int:
        """A VM in the owner's name."""
        made: int = self.frontend.result(ensureDeferred(self.owners.allocate(owner, TEMPLATE)))
        return made

    def tokens(self, owner: Owner) -> int:
        """How many OpenNebula keeps."""
        found = self.frontend.cloud.world.users.named(owner.name)
        assert found is not None
        return len(found.tokens)

    def lose(self, count: int) -> None:
        """The answers to so many calls about tokens are lost."""
        fault = {"kind": "lose", "method": "one.user.login", "count": count}
        self.frontend.bench.ok("embedded.fault.add", fault)


def test_a_token_is_ended_with_the_last_vm_that_is_made_with_it(frontend: Frontend) -> None:
    """None is left."""
    names = Names(frontend)
    assert names.allocate(names.ann) >= 0
    assert names.tokens(names.ann) == 0


def test_a_token_whose_creation_was_not_answered_is_ended(frontend: Frontend) -> None:
    """Before the next one is made, for any owner: ten are the most that an owner may have."""
    names = Names(frontend)
    for _ in range(12):
        names.lose(1)
        with pytest.raises(CloudUnreachableError):
            names.allocate(names.ann)
    assert names.tokens(names.ann) <= 1
    assert names.allocate(names.bob) >= 0
    assert (names.tokens(names.ann), names.tokens(names.bob)) == (0, 0)


def test_a_token_that_nobody_made_is_looked_for_until_it_would_be_over(frontend: Frontend) -> None:
    """OpenNebula may do late what it was asked for."""
    names = Names(frontend)
    fault = {"kind": "refuse", "method": "one.user.login", "count": 1, "code": -1}
    names.lose(1)
    with pytest.raises(CloudUnreachableError):
        names.allocate(names.ann)
    frontend.bench.ok("embedded.fault.add", fault)
    assert names.allocate(names.bob) >= 0
    assert names.tokens(names.ann) == 1, "its end was refused"
    assert names.allocate(names.bob) >= 0
    assert names.tokens(names.ann) == 0
    names.lose(1)
    with pytest.raises(CloudUnreachableError):
        names.allocate(names.ann)
    frontend.clock.advance(LIFE_S)
    assert names.allocate(names.bob) >= 0
    assert names.owners._unanswered == []

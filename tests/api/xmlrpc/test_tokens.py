"""Login tokens of one group: OpenNebula's restriction applies here too."""

from typing import Any

import pytest

from merkatd.service.base.identity import Identity, SignIns
from tests.opennebula.worlds import ADMIN, in_memory

PASSWORD = "carols own"  # noqa: S105 - of this test
USERS = 1


class Door:
    """Logins checked by an embedded cloud, where carol is also an administrator."""

    def __init__(self) -> None:
        world = in_memory()
        self.transport = world.transport
        self.run = world.drive.run
        self.sign_ins = SignIns(self.transport, world.clock, kept_s=10.0, refusal_kept_s=2.0)
        self.carol = self.call("one.user.allocate", ADMIN, "carol", PASSWORD, "core", [USERS, 0])

    def call(self, method: str, *arguments: Any) -> Any:
        """Return the cloud's answer."""
        good, value, *_ = self.run(self.transport.call(method, *arguments))
        assert good, value
        return value

    def token(self, group: int) -> str:
        """Create a token of carol for this group, or -1 for all."""
        session = f"carol:{PASSWORD}"
        return str(self.call("one.user.login", session, "carol", "", 3600, group))

    def who(self, password: str) -> Identity:
        """Return carol's identity with this password."""
        identity: Identity = self.run(self.sign_ins.identify(f"carol:{password}"))
        return identity


@pytest.fixture
def door() -> Door:
    """Return such a set of logins."""
    return Door()


def test_a_token_of_one_group_has_no_rights_of_another(door: Door) -> None:
    """Carol gives it to a program that must not administer."""
    assert door.who(PASSWORD).is_admin
    narrow = door.who(door.token(USERS))
    assert (narrow.uid, set(narrow.groups), narrow.group) == (door.carol, {USERS}, USERS)
    assert not narrow.is_admin


def test_a_token_of_all_groups_is_a_full_login(door: Door) -> None:
    """It equals the password."""
    assert door.who(door.token(-1)) == door.who(PASSWORD)


def test_a_token_of_the_administrators_group_can_administer(door: Door) -> None:
    """It has no other group."""
    admin = door.who(door.token(0))
    assert set(admin.groups) == {0}
    assert admin.is_admin

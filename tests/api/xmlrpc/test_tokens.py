"""Login tokens of one group: what OpenNebula narrows is narrowed here as well."""

from typing import Any

import pytest

from merkatd.service.base.identity import Identity, SignIns
from tests.opennebula.worlds import ADMIN, in_memory

PASSWORD = "carols own"  # noqa: S105 - of this test
USERS = 1


class Door:
    """Logins that are asked of an embedded cloud, where carol is also an administrator."""

    def __init__(self) -> None:
        world = in_memory()
        self.transport = world.transport
        self.run = world.drive.run
        self.sign_ins = SignIns(self.transport, world.clock, kept_s=10.0, refusal_kept_s=2.0)
        self.carol = self.call("one.user.allocate", ADMIN, "carol", PASSWORD, "core", [USERS, 0])

    def call(self, method: str, *arguments: Any) -> Any:
        """What the cloud answers."""
        good, value, *_ = self.run(self.transport.call(method, *arguments))
        assert good, value
        return value

    def token(self, group: int) -> str:
        """A new token of carol's for this group, or -1 for all."""
        session = f"carol:{PASSWORD}"
        return str(self.call("one.user.login", session, "carol", "", 3600, group))

    def who(self, password: str) -> Identity:
        """Carol, with this password."""
        found: Identity = self.run(self.sign_ins.identify(f"carol:{password}"))
        return found


@pytest.fixture
def door() -> Door:
    """A door."""
    return Door()


def test_a_token_of_one_group_has_no_rights_of_another(door: Door) -> None:
    """Carol gave it to a program that is not to administrate."""
    assert door.who(PASSWORD).is_admin
    narrow = door.who(door.token(USERS))
    assert (narrow.uid, set(narrow.groups), narrow.group) == (door.carol, {USERS}, USERS)
    assert not narrow.is_admin


def test_a_token_of_all_groups_is_a_whole_login(door: Door) -> None:
    """Like the password."""
    assert door.who(door.token(-1)) == door.who(PASSWORD)


def test_one_of_the_administrators_group_administrates(door: Door) -> None:
    """And has no other group."""
    admin = door.who(door.token(0))
    assert set(admin.groups) == {0}
    assert admin.is_admin

"""VM groups in whole periods of Merkat: together, apart, on hosts or away from hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.contract.endpoint import SMALL
from tests.contract.merkat import DISABLED

if TYPE_CHECKING:
    from tests.contract.endpoint import Endpoint
    from tests.contract.merkat import Merkat


def group(endpoint: Endpoint, words: str) -> int:
    """Create a VM group."""
    return int(endpoint.ok("one.vmgroup.allocate", f'NAME="{endpoint.name()}"\n{words}'))


def member(oid: int, role: str) -> str:
    """Return the attribute that makes a VM a member."""
    return f'VMGROUP=[VMGROUP_ID="{oid}",ROLE="{role}"]\n'


@pytest.mark.parametrize(("policy", "hosts"), [("ANTI_AFFINED", 3), ("AFFINED", 1)])
def test_members_of_a_role_follow_its_policy(
    endpoint: Endpoint, merkat: Merkat, policy: str, hosts: int
) -> None:
    """They are placed apart or together."""
    oid = group(endpoint, f'ROLE=[NAME="web",POLICY="{policy}"]')
    places = merkat.places(*[member(oid, "web")] * 3)
    assert None not in places
    assert len(set(places)) == hosts


def test_a_member_without_a_separate_host_waits(endpoint: Endpoint, merkat: Merkat) -> None:
    """The fourth member's message names the rule."""
    oid = group(endpoint, 'ROLE=[NAME="web",POLICY="ANTI_AFFINED"]')
    assert None not in merkat.places(*[member(oid, "web")] * 3)
    assert "leaves none of 3 hosts" in merkat.why(member(oid, "web"))


def test_roles_follow_the_rules_between_roles(endpoint: Endpoint, merkat: Merkat) -> None:
    """Roles are kept apart or together."""
    words = "".join(f'ROLE=[NAME="{name}"]\n' for name in "abcd")
    oid = group(endpoint, words + 'ANTI_AFFINED="a,b"\nAFFINED="c,d"\n')
    a, b, c, d = merkat.places(*(member(oid, name) for name in "abcd"))
    assert None not in {a, b, c}
    assert a != b
    assert c == d


def test_a_role_can_name_its_hosts(endpoint: Endpoint, merkat: Merkat) -> None:
    """HOST_AFFINED and HOST_ANTI_AFFINED apply; a VM without a host gets a message."""
    first, second, _ = endpoint.hosts
    oid = group(
        endpoint,
        f'ROLE=[NAME="here",HOST_AFFINED="{second}"]\n'
        f'ROLE=[NAME="there",HOST_ANTI_AFFINED="{first},{second}"]\n',
    )
    assert merkat.places(*[member(oid, "here")] * 2, member(oid, "there")) == [1, 1, 2]
    endpoint.ok("one.host.status", second, DISABLED)
    nowhere = SMALL + member(oid, "here") + f'SCHED_REQUIREMENTS="ID = {first}"\n'
    vm = endpoint.new(nowhere)
    assert merkat.puts(vm) == [None]
    assert "its role's HOST_AFFINED and HOST_ANTI_AFFINED allow none" in merkat.message(vm)

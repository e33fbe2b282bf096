"""The tenant of a user removed from OpenNebula is retired once its VMs are gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.contract.ways import DONE

if TYPE_CHECKING:
    from tests.contract.endpoint import Endpoint
    from tests.contract.merkat import Merkat

BID = "CPU=1\nMEMORY=512\nMERKAT_BID_CPU=1\n"


def test_a_removed_user_is_retired_in_the_second_look(endpoint: Endpoint, merkat: Merkat) -> None:
    """Its credits return to the treasury; a remaining user stays a tenant."""
    leaves, session = endpoint.user()
    stays, other = endpoint.user()
    vms = [endpoint.new(BID, session), endpoint.new(BID, other)]
    merkat.puts(*vms)
    assert merkat.standing(leaves).balance > 0
    endpoint.act(vms[0], "terminate-hard", DONE)
    endpoint.ok("one.user.delete", leaves)
    merkat.period()
    assert merkat.standing(leaves).retired_s is None
    for _ in range(2):
        merkat.period()
    assert merkat.standing(leaves).retired_s is not None
    assert merkat.standing(leaves).holdings == 0
    assert merkat.standing(stays).retired_s is None
    assert merkat.standing(stays).holdings > 0


def test_a_removed_user_with_a_vm_waits(endpoint: Endpoint, merkat: Merkat) -> None:
    """The daemon ends no VMs that an administrator may still need; it lists them."""
    user, session = endpoint.user()
    vm = endpoint.new(BID, session)
    merkat.puts(vm)
    endpoint.ok("one.user.delete", user)
    for _ in range(3):
        merkat.period()
    assert merkat.standing(user).retired_s is None
    assert f"its VMs ({vm}) are gone" in merkat.scheduler.removed.waiting[user]
    endpoint.ok("one.vm.chown", vm, 0, 0)
    for _ in range(2):
        merkat.period()
    assert merkat.standing(user).retired_s is not None
    assert merkat.scheduler.removed.waiting == {}

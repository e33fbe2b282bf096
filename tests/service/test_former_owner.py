"""The bids of a VM whose owner has changed since the latest period."""

from collections.abc import Iterator
from typing import Any

import pytest

from merkatd.opennebula.rpc.http_reply import TooLongError
from tests.scheduler.frontend import PASSWORD, Frontend
from tests.service.interfaces import Interfaces, contended

ANN, BOB = f"ann:{PASSWORD}", f"bob:{PASSWORD}"
_DENIED = 512


@pytest.fixture
def given() -> Iterator[Interfaces]:
    """A cloud in which Ann's VM 0 was given to Bob after the latest period."""
    for interfaces in contended(Frontend(hosts=1)):
        users = {user.name: user.id for user in interfaces.frontend.cloud.world.users}
        interfaces.frontend.bench.ok("one.vm.chown", 0, users["bob"], -1)
        yield interfaces


def test_only_the_present_owner_bids(given: Interfaces) -> None:
    """The new owner pays for the next period, so the former owner may not raise the bid."""
    assert given.call(ANN, "merkat.bid.set", 0, {"cpu": 900.0})[1] == _DENIED
    assert given.page(ANN, "/vms/0/bid", cpu="900").status == 404
    answer, code = given.call(BOB, "merkat.bid.set", 0, {"cpu": 3.0})
    assert code == 0
    assert answer["resources"][0]["old"] == 2.0


def test_the_former_owner_still_sees_the_period(given: Interfaces) -> None:
    """The period shows what the VM had while it was theirs."""
    assert given.call(ANN, "merkat.vm.explain", 0)[1] == 0


def test_an_owner_bids_while_opennebula_is_away(given: Interfaces) -> None:
    """Then the latest period decides who the owner is."""
    fault = {"kind": "refuse", "method": "one.vm.info", "code": 8192}
    given.frontend.bench.ok("embedded.fault.add", fault)
    for _ in range(2):
        assert given.call(ANN, "merkat.bid.set", 1, {"cpu": 3.0})[1] == 0
        assert given.call(BOB, "merkat.bid.set", 1, {"cpu": 3.0})[1] != 0
        given.frontend.bench.ok("embedded.fault.add", fault | {"method": "one.vmpool.info"})


def test_a_long_text_leaves_no_right_to_bid(given: Interfaces, monkeypatch: Any) -> None:
    """The former owner may still use VM 1, and made its text longer than logins may read."""
    frontend = given.frontend
    users = {user.name: user.id for user in frontend.cloud.world.users}
    frontend.bench.ok("one.vm.chown", 1, users["bob"], -1)
    call = frontend.transport.call

    async def limited(method: str, *arguments: Any) -> Any:
        if method == "one.vm.info":
            raise TooLongError(1 << 20)
        return await call(method, *arguments)

    monkeypatch.setattr(frontend.transport, "call", limited)
    assert given.call(ANN, "merkat.bid.set", 1, {"cpu": 900.0})[1] != 0
    assert given.call(BOB, "merkat.bid.set", 1, {"cpu": 4.0})[1] == 0

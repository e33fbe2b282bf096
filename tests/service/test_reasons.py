"""The reasons for prices and refusals, and the queue ahead of a VM that waits."""

import json
from collections.abc import Iterator

import pytest

from merkatd.service.base.callers import Caller
from merkatd.service.base.identity import Identity
from merkatd.service.reasons.refused_requests import MOST_OF_USER, MOST_USERS, RefusedRequests
from tests.scheduler.frontend import PASSWORD, Frontend
from tests.service.interfaces import Interfaces

ANN, BOB = f"ann:{PASSWORD}", f"bob:{PASSWORD}"


@pytest.fixture
def crowded() -> Iterator[Interfaces]:
    """Yield interfaces of full hosts, with VMs that wait."""
    site = Frontend()
    site.user("ann")
    site.user("bob")
    for _ in range(3):
        for host in range(3):
            site.bench.ok("one.vm.deploy", site.vm(3.0, VCPU=4, MEMORY=4096), host)
    for number in range(4):
        site.vm(float(number + 1), NAME=f"late-{number}", MEMORY=65536, MERKAT_FLOOR_MEMORY=65536)
    asked = Interfaces(site)
    asked.periods(2)
    yield asked
    site.close()


def _caller(user: int, *, admin: bool = False) -> Caller:
    return Caller(Identity(user, f"user-{user}", frozenset({0} if admin else {1}), 1), "")


def test_the_price_is_explained_by_its_parts(crowded: Interfaces) -> None:
    """The price is what the market says, and lower bids lower it."""
    prices = {row["resource"]: row["price"] for row in crowded.control("price")}
    reasons = crowded.control("explain_price")
    assert {row["resource"]: row["price"] for row in reasons} == prices
    (cpu,) = crowded.control("explain_price", resource="cpu")
    assert cpu["wanted"] > cpu["capacity"]
    assert cpu["bidders"] == 9
    assert cpu["bids"] == pytest.approx(27.0)
    assert cpu["price_with_less"] == pytest.approx(0.9 * cpu["price"])
    assert "more than the capacity" in cpu["why"]


def test_an_unknown_resource_is_refused(crowded: Interfaces) -> None:
    """The error names the known ones."""
    assert "cpu" in crowded.control("explain_price", resource="cupboards")


def test_a_vm_that_waits_knows_what_is_ahead(crowded: Interfaces) -> None:
    """Of the same priority the lower ids are first; a VM with a host has no queue."""
    waits = [vm for vm in crowded.control("vms") if vm["state"] == "PENDING"]
    assert len(waits) > 1
    queues = [crowded.control("explain", vm=str(vm["id"]))["queue"] for vm in waits]
    assert [queue["vms"] for queue in queues] == list(range(len(waits)))
    assert queues[-1]["bids"]["cpu"] == pytest.approx(sum(vm["bid_cpu"] for vm in waits[:-1]))
    assert [name.split()[0] for name in queues[-1]["names"]] == [str(v["id"]) for v in waits[:-1]]
    assert crowded.control("explain", vm="0")["queue"] is None


def test_tenants_see_no_names(crowded: Interfaces) -> None:
    """Neither in the queue nor in the reasons for prices."""
    vm = crowded.frontend.vm(owner=ANN, MEMORY=65536, MERKAT_FLOOR_MEMORY=65536)
    crowded.periods(1)
    explained, _ = crowded.call(ANN, "merkat.vm.explain", vm)
    assert explained["queue"]["vms"] > 0
    assert "names" not in explained["queue"]
    texts = json.dumps([explained["queue"], crowded.call(ANN, "merkat.price.explain")])
    assert "late-" not in texts
    assert "oneadmin" not in texts


def test_refused_requests_are_the_callers_own(crowded: Interfaces) -> None:
    """The administrator sees those of all users; reads are not kept."""
    _, code = crowded.call(ANN, "merkat.bid.set", 0, {"cpu": 4.0})
    assert code != 0
    _, code = crowded.call(ANN, "merkat.vm.explain", 0)
    assert code != 0
    (refused,), _ = crowded.call(ANN, "merkat.refusal.list")
    assert (refused["user"], refused["request"]) == ("ann", "merkat.bid.set")
    assert refused["reason"]
    assert crowded.call(BOB, "merkat.refusal.list") == ([], 0)
    assert [row["user"] for row in crowded.control("explain_refusal")] == ["ann"]


def test_a_refusal_of_a_command_is_kept(crowded: Interfaces) -> None:
    """The command of an administrator, too, can ask why."""
    assert "nobody" in crowded.control("bid", vm="nobody", cpu=1.0)
    (refused,) = crowded.control("explain_refusal")
    assert (refused["request"], "nobody" in refused["reason"]) == ("bid", True)


def test_the_memory_for_refusals_is_bounded() -> None:
    """By user, by number of users, and by length of a reason."""
    kept = RefusedRequests(lambda: 0.0)
    for user in range(2 * MOST_USERS):
        for _ in range(2 * MOST_OF_USER):
            kept.note(_caller(user), "merkat.bid.set", "x" * 10_000)
    rows = kept.last(_caller(0, admin=True), limit=10**6)
    assert len(rows) == MOST_USERS * MOST_OF_USER
    assert max(len(row.reason) for row in rows) == 500
    assert kept.last(_caller(1)) == []
    assert len(kept.last(_caller(2 * MOST_USERS - 1))) == MOST_OF_USER

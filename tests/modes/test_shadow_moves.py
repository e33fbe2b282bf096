"""Mode shadow compares moves too: those of others with ours, and ours with what others did."""

import pytest

from merkatd.cluster import Migrate
from merkatd.database.scheduler.order_store import Mode
from tests.modes.site import Site

HOST, OTHER = 0, 1


@pytest.fixture
def crowd(site: Site) -> list[int]:
    """VMs that all stand on one host of three, watched for the first time."""
    site.mode(Mode.SHADOW)
    vms = [site.vm(4.0, CPU=4, VCPU=4) for _ in range(6)]
    for vm in vms:
        site.bench.ok("one.vm.deploy", vm, HOST)
    site.minutes(1)
    return vms


def wanted(site: Site) -> dict[int, int]:
    """By VM id: where Merkat would have it now."""
    assert site.scheduler.latest is not None
    plan = site.scheduler.latest.decided.decision.plan
    return {step.vm: step.host for step in plan.of(Migrate)}


def until_wanted(site: Site) -> dict[int, int]:
    """The same, once there is something that it would move."""
    for _ in range(20):
        if found := wanted(site):
            return found
        site.minutes(1)
    raise AssertionError("nothing would be moved")


def test_what_it_alone_would_move_is_told_once(site: Site, crowd: list[int]) -> None:
    """With where it is, where it would be and why; not again as long as nothing changes."""
    moves = until_wanted(site)
    site.minutes(1)
    found = site.ask("differences")
    assert found["compared"] == found["moved"] == 0
    rows = {row["vm"]: row for row in found["vms"]}
    assert rows.keys() == moves.keys() <= set(crowd)
    for vm, row in rows.items():
        assert (row["source"], row["theirs"]) == ("host000", "host000")
        assert row["ours"] == f"host{moves[vm]:03}"
        assert not row["same"]
        assert row["why"]
    before = found["ours_alone"]
    assert before == len(moves)
    still = moves.keys() & wanted(site).keys()
    site.minutes(5)
    told = [row["vm"] for row in site.ask("differences")["vms"]]
    assert all(told.count(vm) == 1 for vm in still)


def test_a_move_that_both_make_agrees(site: Site, crowd: list[int]) -> None:
    """The other one does at once what was decided here."""
    assert crowd
    moves = until_wanted(site)
    for vm, host in moves.items():
        site.bench.ok("one.vm.migrate", vm, host, True, False, -1, 0)
    # In the first of them they are on their way.
    site.minutes(3)
    found = site.ask("differences")
    assert (found["moved"], found["moved_alike"]) == (len(moves), len(moves))
    assert {row["vm"]: row["ours"] for row in found["vms"] if row["same"]} == {
        vm: f"host{host:03}" for vm, host in moves.items()
    }


def test_a_move_that_nobody_here_would_make_differs(site: Site) -> None:
    """A VM that is alone on its host is moved away by hand."""
    site.mode(Mode.SHADOW)
    vm = site.vm(1.0, CPU=1)
    site.bench.ok("one.vm.deploy", vm, HOST)
    site.minutes(2)
    site.bench.ok("one.vm.migrate", vm, OTHER, True, False, -1, 0)
    site.minutes(2)
    found = site.ask("differences")
    assert (found["moved"], found["moved_alike"], found["ours_alone"]) == (1, 0, 0)
    (row,) = found["vms"]
    assert (row["source"], row["theirs"], row["ours"]) == ("host000", "host001", "host000")
    assert row["why"] == "it would have stayed"


def test_what_was_moved_while_it_did_not_look_is_not_compared(site: Site) -> None:
    """Nobody knows what it would have done."""
    site.mode(Mode.SHADOW)
    vm = site.vm(1.0, CPU=1)
    site.bench.ok("one.vm.deploy", vm, HOST)
    site.minutes(2)
    site.mode(Mode.DRY)
    site.minutes(1)
    site.bench.ok("one.vm.migrate", vm, OTHER, True, False, -1, 0)
    site.minutes(1)
    site.mode(Mode.SHADOW)
    site.minutes(2)
    assert site.ask("differences")["moved"] == 0

"""Mode shadow compares migrations, both those of other schedulers and Merkat's own."""

import pytest

from merkatd.cluster import Migrate
from merkatd.database.scheduler.order_store import Mode
from tests.modes.site import Site

HOST, OTHER = 0, 1


@pytest.fixture
def crowd(site: Site) -> list[int]:
    """Return VMs that all run on one of three hosts, observed for the first time."""
    site.mode(Mode.SHADOW)
    vms = [site.vm(4.0, CPU=4, VCPU=4) for _ in range(6)]
    for vm in vms:
        site.bench.ok("one.vm.deploy", vm, HOST)
    site.minutes(1)
    return vms


def proposed(site: Site) -> dict[int, int]:
    """Return the host that Merkat proposes for each VM that it would migrate."""
    assert site.scheduler.latest is not None
    plan = site.scheduler.latest.decided.decision.plan
    return {step.vm: step.host for step in plan.of(Migrate)}


def until_proposed(site: Site) -> dict[int, int]:
    """Run periods until Merkat proposes a migration; return the proposals."""
    for _ in range(20):
        if difference := proposed(site):
            return difference
        site.minutes(1)
    raise AssertionError("Merkat proposes no migration")


def test_a_move_that_only_merkat_proposes_is_reported_once(site: Site, crowd: list[int]) -> None:
    """The row has the current host, the proposed host and the reason."""
    moves = until_proposed(site)
    site.minutes(1)
    differences = site.ask("differences")
    assert differences["compared"] == differences["moved"] == 0
    rows = {row["vm"]: row for row in differences["vms"]}
    assert rows.keys() == moves.keys() <= set(crowd)
    for vm, row in rows.items():
        assert (row["source"], row["theirs"]) == ("host000", "host000")
        assert row["ours"] == f"host{moves[vm]:03}"
        assert not row["same"]
        assert row["why"]
    before = differences["ours_alone"]
    assert before == len(moves)
    still = moves.keys() & proposed(site).keys()
    site.minutes(5)
    reported = [row["vm"] for row in site.ask("differences")["vms"]]
    assert all(reported.count(vm) == 1 for vm in still)


def test_a_move_that_both_schedulers_make_counts_as_equal(site: Site, crowd: list[int]) -> None:
    """The other scheduler makes each proposed migration at once."""
    assert crowd
    moves = until_proposed(site)
    for vm, host in moves.items():
        site.bench.ok("one.vm.migrate", vm, host, True, False, -1, 0)
    # The VMs are still migrating in the first period.
    site.minutes(3)
    differences = site.ask("differences")
    assert (differences["moved"], differences["moved_alike"]) == (len(moves), len(moves))
    assert {row["vm"]: row["ours"] for row in differences["vms"] if row["same"]} == {
        vm: f"host{host:03}" for vm, host in moves.items()
    }


def test_a_move_that_merkat_would_not_make_counts_as_different(site: Site) -> None:
    """A VM alone on its host is migrated by hand."""
    site.mode(Mode.SHADOW)
    vm = site.vm(1.0, CPU=1)
    site.bench.ok("one.vm.deploy", vm, HOST)
    site.minutes(2)
    site.bench.ok("one.vm.migrate", vm, OTHER, True, False, -1, 0)
    site.minutes(2)
    differences = site.ask("differences")
    assert (differences["moved"], differences["moved_alike"], differences["ours_alone"]) == (
        1,
        0,
        0,
    )
    (row,) = differences["vms"]
    assert (row["source"], row["theirs"], row["ours"]) == ("host000", "host001", "host000")
    assert row["why"] == "it would have stayed"


def test_a_move_in_another_mode_is_not_compared(site: Site) -> None:
    """Merkat compares only in mode shadow."""
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

"""Memory in use beyond the paid share: which VM keeps it, for how long, and the message."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import ensureDeferred

from merkatd.cluster import Balloon
from merkatd.market.floors import kept_in_use
from merkatd.market.price import PriceRule
from merkatd.scheduler.observation import memory_in_use
from merkatd.scheduler.observation.memory_in_use import LEAST_MIB
from tests.abuse.memory import FAIR_BID, USE_MIB, Memory
from tests.clouds import cloud, hosts_table, vms_table
from tests.scheduler.frontend import PASSWORD
from tests.served import questions_at

AMOUNTS = st.floats(0, 20_000)


def kept(
    use: list[float], paid: list[float], for_now: list[float], wish: list[float], capacity: float
) -> list[float]:
    """Return the amounts that VMs on one host keep."""
    host, room = np.zeros(len(use), dtype=np.int64), np.array([capacity])
    kept_mib = kept_in_use(
        np.array(use), np.array(paid), np.array(for_now), np.array(wish), host, room
    )
    amounts: list[float] = kept_mib.amount.tolist()
    return amounts


def test_a_vm_keeps_all_memory_in_use_if_no_vm_requests_it() -> None:
    """This holds whatever the VM pays."""
    assert kept([8192, 64], [256, 64], [0, 0], [0, 5000], 16384) == [8192, 64]


def test_vms_that_do_not_pay_divide_the_memory_without_bids() -> None:
    """Bids request 10,000 of 16,384 MiB; a VM keeps nine tenths in the first period."""
    kept_mib = kept([8000, 0, 0], [256, 0, 0], [7200, 0, 0], [0, 5000, 5000], 16384)
    assert kept_mib == pytest.approx([7200, 0, 0])
    kept_mib = kept([8000, 0, 0], [256, 0, 0], [5000, 0, 0], [0, 5000, 5000], 16384)
    assert kept_mib == pytest.approx([6384, 0, 0])
    kept_mib = kept([4256, 4256, 0], [256, 256, 0], [0, 0, 0], [0, 0, 10000], 14512)
    assert kept_mib == pytest.approx([2256, 2256, 0])


def test_under_contention_a_vm_keeps_only_the_memory_it_pays_for() -> None:
    """A VM with a low bid is treated like one without a bid."""
    kept_mib = kept([8000, 3000], [256, 2000], [0, 0], [0, 8192], 8192)
    assert kept_mib == pytest.approx([256, 2000])


@given(
    rows=st.lists(st.tuples(AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS), min_size=1, max_size=5),
    capacity=AMOUNTS,
)
def test_the_kept_memory_lies_between_paid_and_used_memory(
    rows: list[tuple[float, float, float, float]], capacity: float
) -> None:
    """It never overcommits a host."""
    use, paid, for_now, wish = (list(numbers) for numbers in zip(*rows, strict=True))
    use = [max(mib, other) for mib, other in zip(use, paid, strict=True)]
    kept_mib = kept(use, paid, for_now, wish, capacity)
    for mib, least, most in zip(kept_mib, paid, use, strict=True):
        assert least - 1e-6 <= mib <= most + 1e-6
    left = kept(use, paid, [0.0] * len(use), wish, capacity)
    assert sum(left) <= max(capacity, sum(paid)) + 1e-3


@pytest.fixture
def memory() -> Memory:  # type: ignore[misc]
    """Return a host of 16 GiB under the clearing rule."""
    made = Memory(PriceRule.CLEARING)
    yield made
    made.close()


def test_early_periods_shrink_the_memory_no_faster(memory: Memory) -> None:
    """It shrinks by a tenth in an interval, whatever the number of periods."""
    site = memory.site
    vm = memory.vm("eve", 60, USE_MIB)
    site.periods(4)
    text = 'MERKAT_BID_MEMORY="0"'
    site.bench.raw("one.vm.update", vm, text, 1, session=f"eve:{PASSWORD}")
    memory.add_neighbours()
    site.periods(2)
    before = site.cloud.guests.read([vm])[vm].balloon_mib
    for _ in range(6):
        site.clock.advance(20)
        site.period()
    site.clock.advance(10)
    after = site.cloud.guests.read([vm])[vm].balloon_mib
    assert 0.9**3 * before * 0.97 <= after <= 0.9 * before


def test_a_vm_excluded_by_its_own_group_takes_no_memory(memory: Memory) -> None:
    """Its VM group forbids the only host, so no room is made there."""
    honest = memory.vm("ann", 0.5, USE_MIB)
    memory.site.periods(2)
    bench, eve = memory.site.bench, f"eve:{PASSWORD}"
    roles = 'NAME=apart\nROLE=[NAME="web", POLICY="ANTI_AFFINED"]'
    group = bench.ok("one.vmgroup.allocate", roles, session=eve)
    member = f'VMGROUP=[VMGROUP_ID="{group}",ROLE="web"]'
    tiny = 'CPU="0.1"\nVCPU="1"\nMEMORY="128"\nMERKAT_BID_MEMORY="0.02"'
    bench.new(f"{tiny}\n{member}", session=eve)
    memory.site.periods(3)
    large = 'CPU="0.1"\nVCPU="1"\nMEMORY="12000"\nMERKAT_MIN_MEMORY="10000"'
    waits = bench.new(f'{large}\nMERKAT_BID_MEMORY="20"\n{member}', session=eve)
    memory.site.periods(6)
    assert memory.site.state(waits) == "PENDING"
    assert memory.site.cloud.guests.read([honest])[honest].balloon_mib >= USE_MIB


def test_a_vm_that_pays_gets_memory_from_vms_that_do_not(memory: Memory) -> None:
    """Two VMs use the whole host and bid nothing; they shrink until the new VM fits."""
    site = memory.site
    hoards = [memory.vm("eve", 60, USE_MIB) for _ in range(2)]
    site.periods(4)
    for vm in hoards:
        bid = 'MERKAT_BID_MEMORY="0"'
        site.bench.raw("one.vm.update", vm, bid, 1, session=f"eve:{PASSWORD}")
    site.periods(3)
    comer = memory.vm("ann", 0, 64)
    site.periods(4)
    assert site.state(comer) == "PENDING"
    text = 'MERKAT_BID_MEMORY="500"'
    site.bench.raw("one.vm.update", comer, text, 1, session=f"ann:{PASSWORD}")
    site.periods(5)
    assert site.state(comer) == "RUNNING"


def test_the_owner_is_told_before_and_while_a_vm_shrinks(memory: Memory) -> None:
    """`explain` and SCHED_MESSAGE name the bid that keeps the memory; that bid keeps it."""
    site = memory.site
    vm = memory.vm("eve", 60, USE_MIB)
    site.periods(4)
    text = 'MERKAT_BID_MEMORY="0"'
    site.bench.raw("one.vm.update", vm, text, 1, session=f"eve:{PASSWORD}")
    last = site.periods(3)
    why = last.decided.decision.reasons[vm]
    assert why.startswith("it uses 8,192 MiB of memory, and its bid pays for 0: it keeps the rest")
    memory.add_neighbours()
    last = site.periods(4)
    why = last.decided.decision.reasons[vm]
    assert "other VMs there bid for the rest, so it shrinks to" in why
    assert f"step by step to {LEAST_MIB:,.0f}. A memory bid" in why
    row = last.seen.snapshot.vm_row(vm)
    kept_mib = last.seen.snapshot.vms.floor[row, 1]
    assert f"shrinks to {kept_mib:,.0f} MiB" in why
    steps = [step for step in last.decided.limits.plan.of(Balloon) if step.vm == vm]
    assert [(step.memory_mib, step.unpaid) for step in steps] == [(int(kept_mib + 1), True)]
    site.scheduler.latest = last
    questions = questions_at(site.scheduler)
    answer = site.result(ensureDeferred(questions.answer("explain", {"vm": str(vm)})))
    assert answer["message"] == why
    bid = float(why.split("memory bid of ")[1].split(" ")[0])
    text = f'MERKAT_BID_MEMORY="{bid}"'
    site.bench.raw("one.vm.update", vm, text, 1, session=f"eve:{PASSWORD}")
    held = site.periods(6).seen.snapshot.vms.held[row, 1]
    assert held >= 0.9 * kept_mib


def test_a_quote_equals_the_charge_while_memory_is_kept(memory: Memory) -> None:
    """They agree to the micro-credit for a VM that shrinks."""
    site = memory.site
    vm = memory.vm("eve", 0.3, USE_MIB)
    site.periods(4)
    memory.add_neighbours()
    site.scheduler.latest = last = site.periods(5)
    questions = questions_at(site.scheduler)
    quoted = site.result(ensureDeferred(questions.answer("quote", {"vm": str(vm)})))
    before = site.balances()[memory.eve]
    site.periods(1)
    assert last.seen.snapshot.vms.floor[last.seen.snapshot.vm_row(vm), 1] > 2 * LEAST_MIB
    assert before - site.balances()[memory.eve] == pytest.approx(quoted["cost"], abs=2e-6)
    assert FAIR_BID > quoted["cost"] > 0


@pytest.mark.parametrize(("bought", "keeps"), [(5000.0, np.nan), (100.0, 110.0)])
def test_only_a_vm_with_a_low_bid_is_told_what_it_keeps(bought: float, keeps: float) -> None:
    """A VM that pays for all its memory returns memory in ordinary steps."""
    size, held = np.array([[100.0, 256.0]] * 2), np.array([[np.nan, 256.0]] * 2)
    vms = vms_table([0, 0], [[1.0, 1.0], [9.0, 9.0]], size, held=held)
    snapshot = cloud(hosts_table(np.array([[400.0, 464.0]])), vms)
    basis = memory_in_use.UseBasis(
        needed=np.array([110.0, 64.0]),
        measured=np.array([True, True]),
        paid=np.array([min(bought, 110.0), 64.0]),
        bought=np.array([bought, 9000.0]),
        sold=np.array([True, True]),
        scarce=np.array([True, True]),
        most_part=np.full(2, 0.25),
        interval_s=60.0,
    )
    floor, in_use = memory_in_use.floors_in_use(snapshot, np.zeros((2, 2)), basis, None)
    assert floor[:, 1].tolist() == [110.0, 64.0]
    assert in_use.keeps.tolist() == pytest.approx([keeps, np.nan], nan_ok=True)

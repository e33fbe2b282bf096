"""Groups on real hosts: CPU is divided by spending rates, and charged by use."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import sqlalchemy as sa

from merkatd.client import Groups, Merkat
from merkatd.cluster import Migrate
from merkatd.currency import MICRO
from merkatd.database.ledger import usage_store
from merkatd.database.scheduler.step_store import STEPS, StepState
from tests.real.domains import Guest
from tests.real.host import RealHost, until
from tests.real.measuring import measured
from tests.real.port import PERIOD_US
from tests.real.site import Site, running

MARKET = """
[market.default]
strategy = "groups"
"""
RATES = (30, 60, 90, 120)
"""The report's four rates. With two hosts of a core each, {120, 30} and {90, 60} cost the same."""
OF_A_HOST = 150
TEMPLATE = 'CPU="0.25"\nVCPU="1"\nMEMORY="64"\n'
ABOVE, BELOW = 1.05, 0.75
"""The bounds are wide below, because the daemon and libvirtd use the same cores."""
WINDOW_S = 4.0
PAID = 0.9
"""The least part that is charged: a period that comes too late is charged in part."""
NEAR_US = 2_000
LATE = 3
"""The most periods until use is charged."""
MANY = ((60, 2), (120, 2), (45, 3), (45, 3), (80, 4))
"""Rate and number of VMs of each group; two hosts can divide these groups evenly."""
CHANGED, MORE = 3, 225
"""The group whose rate changes, and its other rate. The report's groupings for the two rates differ
by two VMs, or by all but two if each group is mapped to the other host. Migrating one VM of rate 20
makes the hosts even too."""
FEW = 1
NEAR_PART = 0.05
NEAR_LEAST_US = 600
"""Merkat leaves a quota unchanged that differs by less than half a percent of a core."""


def test_run_times_fall_with_the_rate_and_use_is_paid_for(
    mortal_hosts: list[RealHost], tmp_path: Path
) -> None:
    """With requests in two rounds, as in the report, each VM gets the part that its rate buys.

    A group pays its rate for each core-period.
    """
    with running(tmp_path, mortal_hosts, cores=1, more=MARKET) as site:
        first = made(site)
        guests = {rate: site.guest(vm) for rate, vm in first.items()}
        divided(guests, OF_A_HOST)
        paid_for(site, guests, first)
        second = made(site)
        for vms in (first, second):
            divided({rate: site.guest(vm) for rate, vm in vms.items()}, 2 * OF_A_HOST)
        assert not site.failed


def test_a_new_rate_moves_as_few_of_many_as_it_can(
    mortal_hosts: list[RealHost], tmp_path: Path
) -> None:
    """One of fourteen VMs migrates when a group's rate rises, and one when it falls again.

    Without a migration one host would stay dearer than the other. A scheduler that maps groups to
    hosts in order migrates twelve.
    """
    with running(tmp_path, mortal_hosts, cores=1, memory_mib=2048, more=MARKET) as site:
        with connected(site) as merkat:
            groups = Groups(merkat)
            ids = [groups.create(rate=r, count=n, template=TEMPLATE).id for r, n in MANY]
            counts = dict(zip(ids, [n for _, n in MANY], strict=True))
            until(lambda: {group.id: group.running for group in groups.list()} == counts, "all run")
            vms = [groups.info(number).vm_ids for number in ids]
            rates = {vm: r / n for (r, n), ones in zip(MANY, vms, strict=True) for vm in ones}
            divided_evenly(site, rates)
            for rate in (MORE, MANY[CHANGED][0]):
                before = len(migrated(site))
                groups.edit(ids[CHANGED], rate=rate)
                rates |= dict.fromkeys(vms[CHANGED], rate / MANY[CHANGED][1])
                divided_evenly(site, rates)
                site.after_periods(LATE)
                moved = migrated(site)[before:]
                assert len(moved) == len(set(moved)) == FEW, moved
        assert not site.failed


def divided_evenly(site: Site, rates: Mapping[int, float]) -> None:
    """Wait until both hosts cost the same and each guest has its part of its host."""
    paid = sum(rates.values()) / 2
    until(lambda: by_host(site, rates) == [paid, paid], "the hosts cost the same")
    wanted = {vm: rate / paid * PERIOD_US for vm, rate in rates.items()}

    def settled() -> bool:
        quota_us = {vm: site.guest(vm).quota_us() or 0 for vm in rates}
        return all(
            abs(quota_us[vm] - quota) < max(NEAR_LEAST_US, quota * NEAR_PART)
            for vm, quota in wanted.items()
        )

    until(settled, "all have their parts")


def by_host(site: Site, rates: Mapping[int, float]) -> list[float]:
    """Return the sum of the rates of each host's guests."""
    hosts = dict(site.guests.there)
    return [sum(rates[vm] for vm in hosts if hosts[vm] == host) for host in set(hosts.values())]


def migrated(site: Site) -> Sequence[int]:
    """Return the VMs of all confirmed migrations, the oldest first."""
    moves = sa.select(STEPS.c.vm).where(
        STEPS.c.kind == Migrate.kind, STEPS.c.state == StepState.CONFIRMED
    )
    in_order = moves.order_by(STEPS.c.period, STEPS.c.position)
    return site.read(lambda connection: connection.scalars(in_order).all())


def divided(guests: Mapping[int, Guest], of_a_host: int) -> None:
    """Wait until each VM has its part of a core, and check that dearer VMs finish sooner."""
    shares = {rate: rate / of_a_host for rate in guests}

    def settled() -> bool:
        quota_us = {rate: guest.quota_us() or 0 for rate, guest in guests.items()}
        return all(
            abs(quota_us[rate] - share * PERIOD_US) < NEAR_US for rate, share in shares.items()
        )

    until(settled, "all have their parts")
    got = {rate: measured(_counter(guest), WINDOW_S) for rate, guest in guests.items()}
    for rate, share in shares.items():
        assert got[rate].within(share * BELOW, share * ABOVE), got
    if all(quote.free for quote in got.values()):
        took_s = [1.0 / got[rate].most for rate in RATES]
        assert took_s == sorted(took_s, reverse=True)


def _counter(guest: Guest) -> Callable[[], float]:
    return lambda: guest.vcpu_s


def connected(site: Site) -> Merkat:
    """Yield the administrator's connection to the daemon."""
    state = site.directory / "state"
    session = (state / "one_auth").read_text().strip()
    return Merkat((state / "merkat_xmlrpc").read_text().strip(), session)


def made(site: Site) -> dict[int, int]:
    """Create a group of one VM for each rate; return the VM by rate."""
    with connected(site) as merkat:
        groups = Groups(merkat)
        ids = {rate: groups.create(rate=rate, count=1, template=TEMPLATE).id for rate in RATES}
        until(lambda: all(groups.info(group).running for group in ids.values()), "all run")
        vms = {rate: groups.info(number).vm_ids[0] for rate, number in ids.items()}
    until(lambda: set(vms.values()) <= site.guests.there.keys(), "all are on their hosts")
    return vms


def paid_for(site: Site, guests: dict[int, Guest], vms: dict[int, int]) -> None:
    """Check that the charges of some periods are the rate for each core-period used in them."""
    before = {rate: guests[rate].cpu_s for rate in RATES}
    site.after_periods(LATE)
    first = paid(site)
    inner = {rate: guests[rate].cpu_s for rate in RATES}
    site.after_periods(10)
    end = {rate: guests[rate].cpu_s for rate in RATES}
    second = paid(site)
    site.after_periods(LATE)
    last = paid(site)
    for rate, vm in vms.items():
        assert second[vm] - first[vm] <= rate * (end[rate] - before[rate])
        assert last[vm] - first[vm] >= rate * (end[rate] - inner[rate]) * PAID


def paid(site: Site) -> dict[int, float]:
    """Return the credits charged for each VM so far."""

    def read(connection: sa.Connection) -> dict[int, float]:
        charged: dict[int, float] = {}
        for number in connection.scalars(sa.select(usage_store.DETAILS.c.period)):
            usage = usage_store.load(connection, number)
            assert usage is not None
            for vm, amount in zip(usage.vm.tolist(), usage.charged[:, 0].tolist(), strict=True):
                charged[vm] = charged.get(vm, 0.0) + amount / MICRO
        return charged

    return site.read(read)

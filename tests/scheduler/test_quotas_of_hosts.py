"""Random clouds with slow transfers: the quotas on a host never exceed its cores for long.

VMs come and go, bids change, hosts are disabled or do not answer, and administrators migrate VMs.
Then two periods without new events follow, and after these the quotas of each host must fit.
"""

from dataclasses import replace

import numpy as np
import pytest

from merkatd.cluster import Migrate
from merkatd.currency.settings import MoneySettings
from merkatd.embedded.model.settings import Delays
from merkatd.market.price import PriceRule
from merkatd.placement.contract import Pricing
from merkatd.scheduler.base.settings import MarketRules
from merkatd.scheduler.phases.announce import Announcement
from tests.lengths import shorten
from tests.scheduler.frontend import PASSWORD, Frontend

CORES, ROUNDING, LEAST = 400.0, 1.02, 1.0
"""A host's cores in percent, the band of limits, and the least quota of a virtual CPU."""
TENANTS = 3
SECONDS = (20.0, 30.0, 55.0)
EVENTS = ("new", "bid", "bid", "migrate", "migrate", "disable", "enable", "cut", "back",
          "suspend", "resume", "poweroff-hard", "terminate-hard")  # fmt: skip


class RandomCloud:
    """A cloud of some hosts, with events that a seed draws."""

    def __init__(self, seed: int) -> None:
        rng = self.rng = np.random.default_rng(seed)
        self.hosts = int(rng.integers(2, 5))
        rule = (PriceRule.CLEARING, PriceRule.PAPER)[seed // 3 % 2]
        strategy = ("tabu", "paper", "groups")[seed % 3]
        rules = MarketRules(strategy=strategy)
        if strategy != "groups":
            reserve = {"cpu": 0.002} if rng.random() < 0.5 else {}
            rules = replace(rules, pricing=Pricing(rule=rule, reserve=reserve))
        money = MoneySettings(supply=100_000_000, renewal_s=1e9)
        self.frontend = Frontend(hosts=self.hosts, markets=(rules,), money=money)
        world = self.frontend.cloud.world
        speed = float(rng.choice([0.0, 5.0, 10.0, 30.0, 100.0]))
        world.settings = replace(world.settings, delays=Delays(memory_mib_s=speed, jitter=0.2))
        for number in range(TENANTS):
            self.frontend.tenant(f"user{number}")
        self.vms: list[int] = []
        self.silent: set[int] = set()
        for _ in range(self.hosts * 3):
            self.new_vm()

    def new_vm(self) -> None:
        """Create a VM with or without claims; an administrator deploys some at once."""
        rng, memory = self.rng, int(self.rng.choice([512, 1024, 2048, 3072]))
        values: dict[str, object] = {
            "VCPU": int(rng.integers(1, 5)), "MEMORY": memory, "MERKAT_BID_MEMORY": 0.1
        }  # fmt: skip
        if rng.random() < 0.3:
            values["MERKAT_MIN_MEMORY"] = int(memory * 0.9)
        if rng.random() < 0.2:
            values["MERKAT_MAX_CPU"] = int(rng.integers(50, 200))
        owner = f"user{int(rng.integers(TENANTS))}:{PASSWORD}"
        vm = self.frontend.vm(round(float(rng.lognormal(0, 1.5)), 2), owner, **values)
        self.vms.append(vm)
        if rng.random() < 0.3:
            self.frontend.bench.raw("one.vm.deploy", vm, int(rng.integers(self.hosts)))

    def event(self) -> None:
        """Let one thing happen; OpenNebula may refuse it."""
        rng, ask = self.rng, self.frontend.bench.raw
        vm, host = int(rng.choice(self.vms)), int(rng.integers(self.hosts))
        match str(rng.choice(EVENTS)):
            case "new":
                self.new_vm()
            case "bid":
                ask("one.vm.update", vm, f'MERKAT_BID_CPU="{rng.lognormal(0, 1.5):.2f}"', 1)
            case "migrate":
                ask("one.vm.migrate", vm, host, True)
            case "disable":
                ask("one.host.status", host, 1)
            case "enable":
                ask("one.host.status", host, 0)
            case "cut" if not self.silent:
                ask("embedded.host.down", host, False)
                self.silent.add(host)
            case "back":
                for silent in self.silent:
                    ask("embedded.host.up", silent)
                self.silent.clear()
            case action:
                ask("one.vm.action", action, vm)

    def period(self) -> Announcement:
        """Run a period; some time passes after it."""
        latest = self.frontend.period()
        self.overfull = self._overfull(latest)
        self.frontend.clock.advance(float(self.rng.choice(SECONDS)))
        return latest

    def _overfull(self, latest: Announcement) -> dict[int, float]:
        """Return the hosts that answer and exceed their cores, with the sums of their quotas.

        VMs that this period has sent away do not count: their neighbours have their room already.
        """
        steps, not_done = latest.decided.steps, latest.acted.not_done
        sent = {step.vm for step in steps if isinstance(step, Migrate) and step.id not in not_done}
        sums = {}
        for host in set(range(self.hosts)) - self.silent:
            there = self.frontend.cloud.guests.on_host(host)
            guests = [guest for guest in there if guest.vm not in sent]
            quotas = [guest.limits.vcpu_quota * guest.vcpus / 1000.0 for guest in guests]
            slack = LEAST * sum(guest.vcpus for guest in guests)
            if sum(quotas) > CORES * ROUNDING + slack:
                sums[host] = sum(quotas)
        return sums


@pytest.mark.parametrize("block", range(shorten(20, 2)))
def test_quotas_fit_their_hosts_after_a_period_without_events(block: int) -> None:
    """Under every strategy that sells, and both price rules."""
    for seed in range(block * 6, block * 6 + shorten(6, 3)):
        cloud = RandomCloud(seed)
        for _ in range(shorten(6, 3)):
            cloud.period()
            for _ in range(2):
                cloud.period()
                assert cloud.overfull == {}, f"seed {seed}"
            for _ in range(int(cloud.rng.integers(1, 7))):
                cloud.event()
        cloud.frontend.close()

"""Platforms as a tenant's program sees them: `Platforms(merkat).submit(text).id`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from merkatd.client.answers import read, read_all
from merkatd.client.merkat import SELF, Merkat, without_none


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformVm:
    """One of a platform's VMs; what it bids and gets is None until a period has seen it."""

    vm: int
    cluster: str
    state: str
    leaving: bool
    bid_cpu: float | None = None
    bid_memory: float | None = None
    cpu: float | None = None
    memory: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """What was done to a platform, or refused: when, by whom, and why."""

    at_s: float
    who: str
    what: str
    text: str
    refused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """A platform; amounts in credits. From `unattended` on: where one platform was asked for."""

    id: int
    name: str
    owner: int
    controller: str
    state: str
    why: str
    needs: str
    held: bool
    submitted_s: float
    since_s: float
    budget: float
    replenishment: float
    balance: float
    spent: float
    sizes: Mapping[str, int]
    size: int
    started_s: float | None = None
    deadline_s: float | None = None
    on_track: bool | None = None
    projected_end_s: float | None = None
    slack_s: float | None = None
    """So long before its deadline it expects to be done; after it where negative."""
    performance: float | None = None
    reference: float | None = None
    done: float | None = None
    report: str | None = None
    application: int | None = None
    unattended: str | None = None
    """Why the daemon fails to look after it; its VMs and bids stay as they are meanwhile."""
    market: str | None = None
    give_up: bool | None = None
    ideal_s: float | None = None
    prices: Mapping[str, float] | None = None
    full_cost: float | None = None
    """Of a period in which its VMs get all they can use, at these prices."""
    bids: float | None = None
    """What its VMs bid for a period, together."""
    outlook: str | None = None
    takes: str | None = None
    vms: Sequence[PlatformVm] = ()
    actions: Sequence[Deed] = ()
    """Newest first."""


class Platforms:
    """The platforms that one login may look after."""

    def __init__(self, merkat: Merkat) -> None:
        self._merkat = merkat

    def submit(self, template: str, tenant: int = SELF) -> Platform:
        """Have a template's platform looked after from now on; its budget is set aside at once."""
        return self._one("submit", template, tenant)

    def list(self, tenant: int = SELF) -> tuple[Platform, ...]:
        """All of a tenant, also those that are over, in short."""
        return read_all(Platform, self._merkat.call("merkat.platform.list", tenant))

    def show(self, platform: int) -> Platform:
        """How it fares, what it cost, what it would take, its VMs, what was done last."""
        return self._one("info", platform)

    def update(
        self,
        platform: int,
        *,
        deadline: str | None = None,
        performance: float | None = None,
        budget: float | None = None,
        replenishment: float | None = None,
    ) -> Platform:
        """Change what it is to reach or may spend; a deadline as "6h" or a time with its zone."""
        change = without_none(
            deadline=deadline, performance=performance, budget=budget, replenishment=replenishment
        )
        return self._one("update", platform, change)

    def suspend(self, platform: int) -> Platform:
        """Suspend it until it is resumed; one that waits to start is held back."""
        return self._one("suspend", platform)

    def resume(self, platform: int) -> Platform:
        """Resume it now, whatever the price."""
        return self._one("resume", platform)

    def stop(self, platform: int) -> Platform:
        """End it and its VMs; what is left of its budget goes back."""
        return self._one("stop", platform)

    def _one(self, verb: str, *arguments: Any) -> Platform:
        answer = self._merkat.call(f"merkat.platform.{verb}", *arguments)
        return read(Platform, answer, vms=PlatformVm, actions=Deed)

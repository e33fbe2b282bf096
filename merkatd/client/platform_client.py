"""A tenant's calls on virtual platforms: `Platforms(merkat).submit(text).id`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from merkatd.client.answers import read, read_all
from merkatd.client.limit_order_client import LimitForecast, LimitOdds
from merkatd.client.merkat import SELF, Merkat, without_none


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformVm:
    """A VM of a platform; its bids and shares are None until a period has seen it."""

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
    """An action on a platform, done or refused: its time, actor and reason."""

    at_s: float
    who: str
    what: str
    text: str
    refused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """A platform; amounts in credits. Lists leave out the fields from `unattended` on."""

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
    """The seconds between its projected end and its deadline; negative if it ends too late."""
    performance: float | None = None
    reference: float | None = None
    done: float | None = None
    report: str | None = None
    trouble: str | None = None
    """The failure of its controller, if it fails."""
    application: int | None = None
    unattended: str | None = None
    """The reason why the daemon can't manage it; its VMs and bids stay unchanged meanwhile."""
    market: str | None = None
    give_up: bool | None = None
    ideal_s: float | None = None
    prices: Mapping[str, float] | None = None
    full_cost: float | None = None
    """The cost of a period in which its VMs get all they can use, at these prices."""
    bids: float | None = None
    """The sum of its VMs' bids for a period."""
    limit: float | None = None
    """The most that its limit order pays for a period, or would pay now."""
    order_cost: float | None = None
    """What its limit order pays for a period."""
    limit_to_start: float | None = None
    """The least limit with which its order would run now, if hosts have room."""
    declares: str | None = None
    """What its template declares of its application, in short."""
    declared_state: str | None = None
    """The state of the declared application in the latest period."""
    outlook: str | None = None
    takes: str | None = None
    vms: Sequence[PlatformVm] = ()
    actions: Sequence[Deed] = ()
    """The latest actions, newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformQuote(LimitForecast):
    """The quote of a patient platform's limit order, from its template."""

    size: int
    """The number of its VMs."""
    takes: str
    """The reason not to start now, and the condition for a start."""
    limit: float | None = None
    """The limit that the platform would state now."""


class Platforms:
    """The calls on platforms of one login."""

    def __init__(self, merkat: Merkat) -> None:
        self._merkat = merkat

    def submit(self, template: str, tenant: int = SELF) -> Platform:
        """Submit a template's platform; the daemon sets its budget aside at once."""
        return self._one("submit", template, tenant)

    def quote(self, template: str, tenant: int = SELF) -> PlatformQuote:
        """Return the quote of a patient platform's template; nothing is stored."""
        answer = self._merkat.call("merkat.platform.quote", template, tenant)
        return read(PlatformQuote, answer, odds=LimitOdds)

    def list(self, tenant: int = SELF) -> tuple[Platform, ...]:
        """Return all platforms of a tenant in short form, ended ones included."""
        return read_all(Platform, self._merkat.call("merkat.platform.list", tenant))

    def show(self, platform: int) -> Platform:
        """Return a platform's progress, costs, outlook, VMs and latest actions."""
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
        """Change a platform's goals or budget; a deadline is "6h" or a time with its zone."""
        change = without_none(
            deadline=deadline, performance=performance, budget=budget, replenishment=replenishment
        )
        return self._one("update", platform, change)

    def suspend(self, platform: int) -> Platform:
        """Suspend a platform until it is resumed; a platform that waits to start is held back."""
        return self._one("suspend", platform)

    def resume(self, platform: int) -> Platform:
        """Resume a platform now, whatever the price."""
        return self._one("resume", platform)

    def stop(self, platform: int) -> Platform:
        """End a platform and its VMs; the rest of its budget returns to the tenant."""
        return self._one("stop", platform)

    def _one(self, verb: str, *arguments: Any) -> Platform:
        answer = self._merkat.call(f"merkat.platform.{verb}", *arguments)
        return read(Platform, answer, vms=PlatformVm, actions=Deed)

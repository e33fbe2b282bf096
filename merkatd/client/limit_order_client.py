"""A tenant's calls on limit orders: `LimitOrders(merkat).set([12, 13], limit=3.5)`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from merkatd.client.answers import read, read_all
from merkatd.client.merkat import Merkat, without_none


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitOrder:
    """A limit order: its VMs run together while they cost at most `limit` credits a period."""

    id: int
    owner: int
    vms: Sequence[int]
    limit: float
    limit_now: float
    """The limit in force: after a start, `limit` times `factor`."""
    least_run_s: float
    factor: float
    runs: bool
    stated_s: float
    why: str
    owner_name: str | None = None
    market: str | None = None
    since_s: float | None = None
    cost: float | None = None
    """The credits a period that it pays, 0 while it waits."""
    platform: int | None = None
    """The platform that it belongs to, and that alone changes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BookedOrder:
    """A limit order of any tenant: what it asks for, and the limit in force."""

    limit: float
    runs: bool
    height: float | None = None
    """The multiple of slow prices, averaged over an hour, that it can pay."""
    cpu: float | None = None
    memory: float | None = None
    network: float | None = None
    disk: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitOdds:
    """What a limit would have meant in the recorded past."""

    limit: float
    part: float
    """The part of the past in which it would have run."""
    stops_per_day: float
    """How often a day its VMs would have been suspended."""
    cost: float | None = None
    """The average cost of a period of running."""
    chance: float | None = None
    """The chance that the work is done by the deadline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitForecast:
    """The limit that would start VMs now, and what limits did in the recorded past."""

    market: str
    history_s: float
    """The time that the recorded past covers."""
    odds: Sequence[LimitOdds]
    why: str
    """Why odds or chances are missing."""
    limit_to_start: float | None = None
    windows: float | None = None
    """How many times the recorded past is as long as the time until the deadline."""
    work_s: float | None = None
    within_s: float | None = None
    cpu: float | None = None
    memory: float | None = None
    network: float | None = None
    disk: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitQuote(LimitForecast):
    """The quote of a limit order."""

    vms: Sequence[int]


class LimitOrders:
    """The calls on limit orders of one login."""

    def __init__(self, merkat: Merkat) -> None:
        self._merkat = merkat

    def set(
        self,
        vms: Sequence[int],
        *,
        limit: float,
        least_run_s: float = 0.0,
        factor: float = 1.0,
    ) -> int:
        """State a limit order and return its id; a repeated call returns the same id.

        For `least_run_s` after each start the limit is `limit` times `factor`.
        """
        terms = (float(limit), float(least_run_s), float(factor))
        return self._id("set", [*vms], *terms)

    def change(
        self,
        order: int,
        *,
        limit: float | None = None,
        least_run_s: float | None = None,
        factor: float | None = None,
    ) -> int:
        """Change the terms of a limit order; None leaves a value unchanged."""
        terms = without_none(limit=limit, least_run_s=least_run_s, factor=factor)
        return self._id("change", order, terms)

    def delete(self, order: int) -> int:
        """Delete a limit order: the bids of its VMs count again."""
        return self._id("delete", order)

    def list(self) -> tuple[LimitOrder, ...]:
        """Return the limit orders of this login; for an administrator, all."""
        return read_all(LimitOrder, self._merkat.call("merkat.order.list"))

    def book(self, market: str = "") -> tuple[BookedOrder, ...]:
        """Return the limit orders of a market, of all tenants, from the largest height."""
        return read_all(BookedOrder, self._merkat.call("merkat.order.book", market))

    def quote(
        self,
        vms: Sequence[int] = (),
        *,
        size: Mapping[str, float | str] | None = None,
        work_s: float | None = None,
        within_s: float | None = None,
        limits: Sequence[float] | None = None,
    ) -> LimitQuote:
        """Return the quote of an order of these VMs, or of a size: `cpu`, `memory`, `market`."""
        terms = without_none(
            work_s=None if work_s is None else float(work_s),
            within_s=None if within_s is None else float(within_s),
            limits=None if limits is None else [float(limit) for limit in limits],
        )
        answer = self._merkat.call("merkat.order.quote", [*vms], dict(size or {}), terms)
        return read(LimitQuote, answer, odds=LimitOdds)

    def _id(self, method: str, *arguments: Any) -> int:
        return int(self._merkat.call(f"merkat.order.{method}", *arguments))

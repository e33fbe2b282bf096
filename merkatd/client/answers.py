"""The daemon's answers as dataclasses. A member that the daemon leaves out is None."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from merkatd.client.errors import UnreachableError

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """The price of one unit of a resource for one period: a percent of a core, or a MiB."""

    market: str
    resource: str
    period: int
    at_s: float
    price: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PastPrice:
    """The prices of one period of a market."""

    period: int
    at_s: float
    market: str
    cpu: float | None = None
    memory: float | None = None
    network: float | None = None
    disk: float | None = None
    supply: str | None = None
    """The change of the supply of credits in this period, with its reason; None without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotedResource:
    """The share and the cost of a bid; `bid` is None if no bid gets the wanted share."""

    resource: str
    share: float
    most: float
    wanted: float | None = None
    bid: float | None = None
    price: float | None = None
    cost: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """What a VM's bids would get and cost now."""

    market: str
    period: int
    resources: Sequence[QuotedResource]
    id: int | None = None
    name: str | None = None
    host: str | None = None
    rate: float | None = None
    cost: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A VM's bid for a resource, its share and its cost."""

    resource: str
    bid: float
    share: float
    cost: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VmBid:
    """A VM's bids."""

    id: int
    name: str
    resources: Sequence[Share]
    limit_order: int | None = None
    """Its limit order: while it is in one, its own bids do not count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBid:
    """The old and the new bid for a resource, with the share and the cost of each now."""

    resource: str
    old: float
    new: float
    share: float
    new_share: float
    cost: float | None = None
    new_cost: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BidChange:
    """A VM's old and new bids."""

    id: int
    name: str
    resources: Sequence[NewBid]
    limit_order: int | None = None
    """Its limit order: while it is in one, its own bids do not count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The explanation of a VM's allocation."""

    id: int
    name: str
    state: str
    period: int
    at_s: float
    sentence: str
    bid_source: str
    cost: float
    resources: Sequence[Mapping[str, Any]]
    owner: int | None = None
    owner_name: str | None = None
    host: str | None = None
    market: str | None = None
    message: str | None = None
    why_here: Mapping[str, Any] | None = None
    bid_at_s: float | None = None
    limit_order: int | None = None
    """Its limit order: while it is in one, its own bid does not count."""
    rate: float | None = None
    balance: float | None = None
    queue: Mapping[str, Any] | None = None
    """For a VM that waits: the VMs that are placed before it."""
    application: int | None = None
    standing: str | None = None
    """Where its application stands, if the strategy knows a utility."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationExplanation:
    """Where an application stands."""

    application: int
    period: int
    at_s: float
    vms: int
    sentence: str
    """Its utility, what it predicts, and what its goal takes."""
    name: str | None = None
    owner: int | None = None
    owner_name: str | None = None
    market: str | None = None
    utility: float | None = None
    payers: Sequence[str] | None = None
    """For administrators: the applications that would have less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceReason:
    """How the price of a resource came about; None stands for infinite prices."""

    market: str
    resource: str
    period: int
    at_s: float
    reserve: float
    rule: str
    strategy: str
    capacity: float
    floors: float
    wanted: float
    bids: float
    bidders: int
    waiting: int
    why: str
    price: float | None = None
    price_with_less: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A request that the daemon refused."""

    at_s: float
    user: str
    request: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """A tenant; amounts in credits."""

    id: int
    weight: float
    entitlement: float
    balance: float
    in_applications: float
    reserved: float = 0.0
    debt: float = 0.0
    name: str | None = None
    group: int | None = None
    group_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """An application's budget; amounts in credits."""

    application: int
    name: str
    owner: int
    budget: float
    replenishment: float
    balance: float
    opened_s: float
    reserved: float = 0.0
    debt: float = 0.0
    ended_s: float | None = None
    owner_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementVm:
    """A VM's usage and cost in a month; amounts in credits."""

    vm: int
    name: str
    account: int
    hours: float
    cpu_core_hours: float
    memory_gib_hours: float
    cpu_cost: float
    memory_cost: float
    total_cost: float
    network_mbit_hours: float = 0.0
    network_cost: float = 0.0
    disk_mib_hours: float = 0.0
    disk_cost: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A tenant's monthly statement; amounts in credits."""

    id: int
    month: str
    opening: float
    closing: float
    charged: float
    missing: float
    movements: Mapping[str, float]
    vms: Sequence[StatementVm]
    debt: float = 0.0
    difference: float = 0.0
    """The amount that the statement can't explain; always 0."""
    name: str | None = None
    group: int | None = None
    group_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MonthReport:
    """What a tenant used and paid in a month; amounts in credits."""

    month: str
    id: int
    vms: int
    hours: float
    cpu_hours: float
    memory_hours: float
    cpu_cost: float
    memory_cost: float
    network_cost: float
    disk_cost: float
    cost: float
    income: float
    refunds: float
    difference: int = 0
    """The micro-credits by which the costs differ from the charges; always 0."""
    part: float | None = None
    """The part of the costs of all tenants, for administrators."""
    name: str | None = None
    group_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareReport:
    """What a tenant may have of the cloud, and what it has now; amounts in credits."""

    id: int
    weight: float
    budget: float
    used: float
    left: float
    debt: float
    vms: int
    cost: float
    cpu: float
    memory: float
    part_cpu: float | None = None
    part_memory: float | None = None
    network: float | None = None
    part_network: float | None = None
    disk: float | None = None
    part_disk: float | None = None
    entitled: float | None = None
    lasts: float | None = None
    """The number of periods for which its credits last."""
    name: str | None = None
    group_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedVm:
    """A VM that a call created."""

    id: int
    name: str


def read(kind: type[Answer], value: Any, **parts: type) -> Answer:
    """Return a struct as a dataclass; `parts` are the classes of its arrays of structs.

    Unknown members are ignored: a newer daemon may send them.
    """
    if not isinstance(value, dict):
        raise UnreachableError(f"expected an answer of merkatd (got {str(value)[:80]})")
    known = {field.name for field in fields(kind)}  # type: ignore[arg-type]  # all are dataclasses
    fields_read = {name: member for name, member in value.items() if name in known}
    for name, part in parts.items():
        fields_read[name] = read_all(part, fields_read.get(name))
    try:
        return kind(**fields_read)
    except TypeError as error:
        raise UnreachableError(
            f"the daemon runs a version incompatible with this client: {error}"
        ) from None


def read_all(kind: type[Answer], value: Any) -> tuple[Answer, ...]:
    """Return an array of structs as dataclasses."""
    if not isinstance(value, list):
        raise UnreachableError(f"expected an answer of merkatd (got {str(value)[:80]})")
    return tuple(read(kind, element) for element in value)

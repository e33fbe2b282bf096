"""Arguments of calls about bids and quotes, as the services expect them."""

from merkatd.scheduler.base.settings import ALL_GOODS
from merkatd.service.base.arguments import Arguments, text
from merkatd.service.market.quotes import LEAST, MOST, Amounts, PlannedVm


def amounts_of(arguments: Arguments, prefix: str = "") -> Amounts:
    """Return the amounts of all goods whose names have this prefix; the services check them."""
    named = ((good, arguments.get(f"{prefix}{good}")) for good in ALL_GOODS)
    return {good: amount for good, amount in named if amount is not None}


def planned_vm_of(arguments: Arguments) -> PlannedVm:
    """Return a planned VM, described by `market`, `most_cpu`, `least_memory` ..."""
    return PlannedVm(
        market=text(arguments, "market"),
        floor=amounts_of(arguments, LEAST),
        cap=amounts_of(arguments, MOST),
    )

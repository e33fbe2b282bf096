"""The VMs and the terms of limit orders, as calls give them: checked."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from merkatd.base.quantities import quoted_value
from merkatd.cluster.orders import LimitOrder
from merkatd.scheduler.traits.template_values import MAX_AMOUNT
from merkatd.service.base.arguments import LARGEST_WHOLE
from merkatd.service.base.errors import InvalidRequestError

MOST_VMS = 1_000
"""The most VMs of a limit order."""
LONGEST_RUN_S = 30 * 86_400.0
MOST_FACTOR = 100.0


@dataclass(frozen=True, slots=True)
class StatedTerms:
    """The terms of a limit order, which its tenant can change."""

    limit: float
    """The most credits a period for all VMs of the order together."""
    least_run_s: float
    """The time after each start for which `factor` applies."""
    factor: float
    """The multiple of the limit that applies for `least_run_s`."""


def stated_terms(
    limit: Any, least_run_s: Any, factor: Any, present: StatedTerms | None = None
) -> StatedTerms:
    """Return the given terms; None stands for the `present` one. Raise InvalidRequestError."""
    if present is not None:
        limit = present.limit if limit is None else limit
        least_run_s = present.least_run_s if least_run_s is None else least_run_s
        factor = present.factor if factor is None else factor
    if not (_is_number(limit) and 0 < limit <= MAX_AMOUNT):
        raise InvalidRequestError(
            f"limit: must be a number above 0, at most {MAX_AMOUNT:g} (got {quoted_value(limit)})"
        )
    if not (_is_number(least_run_s) and 0 <= least_run_s <= LONGEST_RUN_S):
        raise InvalidRequestError(
            f"least_run_s: must be from 0 to {LONGEST_RUN_S:.0f} seconds, 30 days"
            f" (got {quoted_value(least_run_s)})"
        )
    if not (_is_number(factor) and 1 <= factor <= MOST_FACTOR):
        raise InvalidRequestError(
            f"factor: must be a number from 1 to {MOST_FACTOR:g} (got {quoted_value(factor)})"
        )
    return StatedTerms(float(limit), float(least_run_s), float(factor))


def reason_of(order: LimitOrder) -> str:
    """Return why an order waits without its name, which only its VMs' messages need."""
    name = f"limit order {order.id} "
    return order.why.removeprefix(f"{name}waits: ").removeprefix(name)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def order_vms(vms: Sequence[Any]) -> tuple[int, ...]:
    """Return the ids of an order's VMs in ascending order. Raise InvalidRequestError."""
    if not isinstance(vms, list | tuple):
        raise InvalidRequestError(f"vms: must be a list of ids (got {quoted_value(vms)})")
    if not 1 <= len(vms) <= MOST_VMS:
        raise InvalidRequestError(f"vms: must be 1 to {MOST_VMS} VMs (got {len(vms)})")
    for vm in vms:
        if type(vm) is not int or not 0 <= vm <= LARGEST_WHOLE:
            raise InvalidRequestError(f"vms: must be ids of VMs (got {quoted_value(vm)})")
    ids = tuple(sorted(vms))
    for vm, following in pairwise(ids):
        if vm == following:
            raise InvalidRequestError(f"vms: must name each VM once (got VM {vm} twice)", vm)
    return ids

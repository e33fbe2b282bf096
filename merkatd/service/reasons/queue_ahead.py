"""The VMs that are placed before a waiting VM."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from merkatd.cluster.columns import NO_ROW
from merkatd.service.base.period_view import PeriodView

_NAMED = 20
"""The most VMs that are named."""


@dataclass(frozen=True, slots=True)
class QueueAhead:
    """The waiting VMs of a market that are placed before a VM.

    These have a higher priority, or the same priority and a lower id.
    """

    vms: int
    """Their number."""
    waiting: int
    """The number of all VMs that wait in the market, with the VM itself."""
    bids: Mapping[str, float]
    """By resource: the sum of their bids, in credits a period."""
    size: Mapping[str, float]
    """By resource: what they could use together."""
    names: Sequence[str] | None
    """The first of them, for administrators; None for tenants."""


def queue_ahead(view: PeriodView, row: int, *, names: bool) -> QueueAhead | None:
    """Return what is ahead of the VM in this row; None if it waits for nothing.

    A VM in a limit order has no place in this queue: its order is cleared by its limit.
    """
    vms = view.snapshot.vms
    if not vms.waiting[row] or view.host_name(row) is not None or vms.order[row] != NO_ROW:
        return None
    queue = vms.waiting & (vms.market == vms.market[row]) & (vms.order == NO_ROW)
    higher = vms.priority > vms.priority[row]
    earlier = (vms.priority == vms.priority[row]) & (np.arange(len(vms)) < row)
    ahead = np.flatnonzero(queue & (higher | earlier))
    first = ahead[np.argsort(-vms.priority[ahead], kind="stable")][:_NAMED].tolist()
    resources = view.snapshot.resources
    return QueueAhead(
        vms=len(ahead),
        waiting=int(queue.sum()),
        bids=dict(zip(resources, vms.bid[ahead].sum(axis=0).tolist(), strict=True)),
        size=dict(zip(resources, vms.cap[ahead].sum(axis=0).tolist(), strict=True)),
        names=[f"{vms.id[at]} ({vms.name[at]})" for at in first] if names else None,
    )

"""Period views of any number of VMs and hosts."""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from merkatd.cluster import Decision, Floats, Plan
from merkatd.limits import LimitPlan
from merkatd.service.base.period_view import PeriodView
from tests.clouds import cloud, hosts_table, vms_table

WHOLE = (800.0, 8192.0)


def view_of(
    hosts: int, places: npt.ArrayLike, allocations: Floats, names: str = "", **changes: Any
) -> PeriodView:
    """Return a view with VMs of owners 0, 1, 2 in turn on these hosts with these allocations.

    If `names` is given, all objects have that name.
    """
    host = np.asarray(places, dtype=np.int64)
    count = len(host)
    snapshot = cloud(
        hosts_table(np.tile(WHOLE, (hosts, 1))),
        vms_table(host, np.ones((count, 2)), allocations, owner=np.arange(count) % 3),
    )
    if names:
        snapshot = replace(
            snapshot,
            hosts=replace(snapshot.hosts, name=(names,) * hosts),
            vms=replace(snapshot.vms, name=(names,) * count),
        )
    values: dict[str, Any] = {
        "at_s": 0.0,
        "snapshot": snapshot,
        "states": (names or "RUNNING",) * count,
        "decision": Decision(Plan(), allocations, np.zeros((1, 2))),
        "limits": LimitPlan(Plan(), {}, {}, {}),
        "host": host,
        "cost": np.full((count, 2), 0.5),
        "rate": np.full(count, np.nan),
        "messages": dict.fromkeys(range(count), names) if names else {},
        "owner_names": dict.fromkeys(range(3), names) if names else {0: "ann", 1: "bob", 2: "cy"},
    }
    return PeriodView(**values | changes)

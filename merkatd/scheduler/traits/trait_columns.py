"""The columns of a snapshot from the traits of hosts and VMs, with their defaults."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from merkatd.cluster import Floats, VmKind
from merkatd.cluster.columns import NO_ROW, rows_of
from merkatd.scheduler.base.ports import GuestUse, Observation
from merkatd.scheduler.base.settings import GoodsSettings
from merkatd.scheduler.traits.template_values import amount
from merkatd.scheduler.traits.vm_traits import VmTraits


def host_columns(seen: Observation, goods: GoodsSettings) -> dict[str, Any]:
    """Return the columns of hosts that their templates describe.

    A link without a stated speed has the network bandwidth of its host.
    """
    traits, count = seen.host_traits, len(seen.host_id)
    link = _bandwidth(seen, goods)
    if traits is None:
        return {
            "domains": {},
            "topology": np.zeros((count, 0), dtype=np.int64),
            "link_mbps": link,
        }
    return {
        "domains": traits.domains,
        "topology": traits.topology,
        "link_mbps": np.where(np.isnan(traits.link_mbit_s), link, traits.link_mbit_s),
        "idle_watts": traits.idle_watts,
        "full_watts": traits.full_watts,
        "can_sleep": traits.can_sleep,
        "asleep": traits.asleep,
    }


def _bandwidth(seen: Observation, goods: GoodsSettings) -> Floats:
    """[hosts]: the network bandwidth in each host's template if it is a number, else of all."""
    link = np.full(len(seen.host_id), goods.host_network_mbit_s)
    rows = rows_of(seen.host_id, np.array(list(seen.host_goods), dtype=np.int64)).tolist()
    for row, stated in zip(rows, seen.host_goods.values(), strict=True):
        mbit_s = amount(stated.get("network", ""))
        if mbit_s is not None:
            link[row] = mbit_s
    return link


def vm_columns(seen: Observation, use: GuestUse, stated: Mapping[int, VmTraits]) -> dict[str, Any]:
    """Return the columns of VMs that their owners state, and of their disks and records.

    A measured dirty rate replaces the stated one.
    """
    count = len(seen.vm_id)
    kind = np.full(count, int(VmKind.SERVICE))
    dirty_mib_s = np.full(count, np.nan)
    rows = rows_of(seen.vm_id, np.fromiter(stated, dtype=np.int64)).tolist()
    for row, traits in zip(rows, stated.values(), strict=True):
        if row != NO_ROW and traits.kind is not None:
            kind[row] = traits.kind
        if row != NO_ROW and traits.dirty_mib_s is not None:
            dirty_mib_s[row] = traits.dirty_mib_s
    if use.dirty_mib_s is not None:
        rows_of_use = rows_of(seen.vm_id, use.vm_id)
        measured = (rows_of_use != NO_ROW) & ~np.isnan(use.dirty_mib_s)
        dirty_mib_s[rows_of_use[measured]] = use.dirty_mib_s[measured]
    columns = {"kind": kind, "dirty_mib_s": dirty_mib_s, "started_s": _started_s(seen)}
    if seen.vm_disk_mib is not None:
        columns["disk_mib"] = seen.vm_disk_mib
    if seen.vm_shared_disk is not None:
        columns["shared_disk"] = seen.vm_shared_disk
    return columns


def _started_s(seen: Observation) -> Floats:
    """[vms]: the start of each guest that runs, by the last record; NaN for others."""
    if seen.records is None:
        return np.full(len(seen.vm_id), np.nan)
    runs = (seen.records.ran_from_s > 0) & (seen.records.ran_until_s == 0)
    return np.where(runs, seen.records.ran_from_s, np.nan)

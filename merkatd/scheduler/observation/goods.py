"""Network and disk as goods: the hosts' amounts, and the VMs' caps.

OpenNebula charges no host for either, so a VM's template has no size for them. A VM can use the
full amount of the largest host in its market, unless it sets a lower cap. A VM outside every market
keeps its own cap, or nothing without one.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from merkatd.cluster import Floats, Ints
from merkatd.cluster.columns import row_of
from merkatd.scheduler.base.ports import Observation
from merkatd.scheduler.base.settings import GoodsSettings
from merkatd.scheduler.observation.bidders import TemplateBids
from merkatd.scheduler.traits.template_values import amount


def with_goods(
    seen: Observation,
    goods: GoodsSettings,
    wishes: Mapping[int, TemplateBids],
    host_market: Ints,
    market: Ints,
) -> Observation:
    """Return the observation with a column for each optional good in all arrays by resource.

    `host_market` and `market` are the markets of hosts (with one more row) and of VMs.
    """
    capacity = np.column_stack([_of_hosts(seen, goods, name) for name in goods.further])
    unknown = np.full_like(capacity, np.nan)
    most = np.zeros((int(host_market.max(initial=-1)) + 2, len(goods.further)))
    np.maximum.at(most, host_market[:-1], capacity)
    # NO_MARKET selects the last row: goods of hosts without a market can't be used.
    most[-1] = 0.0
    size = most[np.minimum(market, len(most) - 1)]
    reserved = np.zeros_like(size)
    for vm, wish in wishes.items():
        row = row_of(seen.vm_id, vm) if wish.most else None
        if row is not None:
            reserved[row] = [wish.most.get(name, 0.0) for name in goods.further]
    return replace(
        seen,
        host_capacity=np.hstack([seen.host_capacity, capacity]),
        host_used=np.hstack([seen.host_used, unknown]),
        vm_size=np.hstack([seen.vm_size, size]),
        vm_reserved=np.hstack([seen.vm_reserved, reserved]),
    )


def _of_hosts(seen: Observation, goods: GoodsSettings, name: str) -> Floats:
    """[hosts]: the amount in each host's template if it is a number, else the default."""
    common = goods.of_a_host(name)
    amounts = [
        amount(seen.host_goods.get(host, {}).get(name, "")) for host in seen.host_id.tolist()
    ]
    return np.array([common if value is None else value for value in amounts], dtype=np.float64)


def bids_with_goods(
    bids: Mapping[int, Mapping[str, float]],
    wishes: Mapping[int, TemplateBids],
    goods: GoodsSettings,
) -> Mapping[int, Mapping[str, float]]:
    """Return the most recent bids, completed by the templates' bids for optional goods.

    A bid made before a good was traded has no amount for it.
    """
    amounts_of_vm = dict(bids)
    for vm, wish in wishes.items():
        more = {name: wish.bid[name] for name in goods.further if name in wish.bid}
        if more:
            amounts_of_vm[vm] = {**more, **amounts_of_vm.get(vm, {})}
    return amounts_of_vm

"""Floors against hosts: which hosts are overfull, and by how much."""

import numpy as np

from merkatd.cluster import Bools, Floats, Ints
from merkatd.market.view import NOWHERE, MarketView


def excess(view: MarketView, place: Ints) -> Floats:
    """Return [hosts, resources]: by how much the floors of the VMs on each host exceed it."""
    there = place != NOWHERE
    floors = np.stack(
        [np.bincount(place[there], column[there], len(view.hosts)) for column in view.floor.T],
        axis=1,
    )
    over: Floats = np.maximum(floors - view.capacity, 0.0)
    return over


def on_overfull(view: MarketView) -> Bools:
    """Return [vms]: whether each runs on a host that is overfull now."""
    over = np.append((excess(view, view.place) > 0).any(axis=1), False)
    found: Bools = over[view.place]
    return found

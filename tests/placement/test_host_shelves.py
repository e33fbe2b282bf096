"""Gangs on shelves of hosts: each VM gets the fullest host with room, as brute force finds it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.cluster import Ints, Requirements, Snapshot
from merkatd.cluster.columns import NO_HOST, NO_ROW, no_rows
from merkatd.market.market_view import MarketView, market_view
from merkatd.placement.base.board import Board
from merkatd.placement.base.gangs import GangBoard
from merkatd.placement.base.hard_constraints import HardConstraints
from merkatd.placement.market.orders.lone_orders import LoneOrders, StuckVms
from merkatd.placement.market.orders.room_by_moves import RoomByMoves
from tests.clouds import crowded, tangled
from tests.lengths import EXAMPLES, shorten

SEEDS = st.integers(0, 2**32 - 1)


def in_tens(snapshot: Snapshot) -> Snapshot:
    """Return the cloud with whole tens, so that sums are exact and hosts are often just full."""
    hosts, vms = snapshot.hosts, snapshot.vms
    return replace(
        snapshot,
        hosts=replace(hosts, capacity=np.round(hosts.capacity, -1)),
        vms=replace(vms, cap=np.round(vms.cap, -1), floor=np.round(vms.floor, -1)),
    )


def fullest(
    view: MarketView, rules: HardConstraints, place: Ints, vm: int, beside: list[int]
) -> int:
    """Return the allowed host with the least room that suffices, by brute force.

    Prefer hosts with room for those of the VMs `beside` that must be on the same host, too.
    """
    free = view.capacity.copy()
    there = np.flatnonzero(place != NO_HOST)
    np.subtract.at(free, place[there], view.floor[there])
    fits = (free >= view.floor[vm]).all(axis=1) & rules.allowed(vm, place)
    if rules.bound[vm]:
        partners = rules.partners(vm, np.array(beside, dtype=np.int64)).tolist()
        roomy = fits & (free >= view.floor[[vm, *partners]].sum(axis=0)).all(axis=1)
        fits = roomy if roomy.any() else fits
    hosts = np.flatnonzero(fits)
    if not len(hosts):
        return NO_HOST
    typical = np.maximum(view.capacity.max(axis=0), 1.0)
    room = (free[hosts] / typical).max(axis=1)
    return rules.preferred(vm, hosts[room == room.min()])


def take(view: MarketView, rules: HardConstraints, place: Ints, vms: Ints) -> Ints:
    """Return the places after a gang took hosts, or the same places, by brute force.

    A VM without a host is placed first in another attempt, if the VMs may not use the same hosts.
    """
    typical = np.maximum(view.capacity.max(axis=0), 1.0)
    size = (view.floor / typical).max(axis=1)
    order = vms[np.argsort(-size[vms], kind="stable")].tolist()
    for _ in range(1 if rules.alike(vms) else 8):
        after = place.copy()
        for at, vm in enumerate(order):
            after[vm] = fullest(view, rules, after, vm, order[at + 1 :])
            if after[vm] == NO_HOST:
                break
        else:
            return after
        if at == 0:
            return place
        order.insert(0, order.pop(at))
    return place


@settings(max_examples=EXAMPLES)
@given(SEEDS)
def test_gangs_get_the_places_that_brute_force_finds(seed: int) -> None:
    """They come and leave in turns; roles, requirements, drained and overfull hosts count."""
    rng = np.random.default_rng(seed)
    view = market_view(snapshot := in_tens(tangled(seed, hosts=6, vms=40)), 0)
    if not len(view.hosts) or not len(view.vms):
        return
    rules, board = HardConstraints(snapshot, view), Board(view, view.place)
    gangs, place = GangBoard(view, board, rules), view.place.copy()
    for _ in range(20):
        vms = rng.permutation(len(view.vms))[: rng.integers(1, 9)]
        if rng.random() < 0.5:
            gangs.leave(vms)
            place[vms] = NO_HOST
        else:
            vms = vms[place[vms] == NO_HOST]
            after = take(view, rules, place, vms)
            assert gangs.take(vms) == (after[vms] != NO_HOST).all()
            place = after
        assert board.place.tolist() == place.tolist()
        for host in range(len(view.hosts)):
            assert board.on(host).tolist() == np.flatnonzero(place == host).tolist()


@settings(max_examples=shorten(60, 8), deadline=None)
@given(SEEDS)
def test_gangs_find_the_fullest_of_hosts_on_many_rows_of_shelves(seed: int) -> None:
    """Rows are passed over as hosts fill up, and found again as VMs leave."""
    rng = np.random.default_rng(seed)
    view = market_view(snapshot := in_tens(crowded(900, seed % 100, per_host=2)), 0)
    share = rng.choice([0.05, 0.5, 0.9, 0.99], (len(view.vms), 1))
    size = np.round(share * view.capacity[0] * rng.uniform(0.1, 1.0, view.floor.shape), -1)
    view = replace(view, floor=size, place=np.full(len(view.vms), NO_HOST))
    rules, board = HardConstraints(snapshot, view), Board(view, view.place)
    gangs, place = GangBoard(view, board, rules), view.place.copy()
    hosts = rng.integers(0, len(view.hosts), len(place))
    for vm, host in enumerate(hosts[: len(view.hosts)].tolist()):
        place[vm] = host if gangs.keep(np.array([vm]), np.array([host])) else NO_HOST
    for _ in range(30):
        vms = rng.permutation(len(place))[: rng.integers(1, 5)]
        if rng.random() < 0.5:
            gangs.leave(vms)
            place[vms] = NO_HOST
        else:
            vms = vms[place[vms] == NO_HOST]
            place = take(view, rules, place, vms)
            assert gangs.take(vms) == (place[vms] != NO_HOST).all()
        assert board.place.tolist() == place.tolist()


def test_many_vms_on_a_host_get_more_slots() -> None:
    """A host begins with a few free slots only."""
    view = market_view(snapshot := crowded(3, seed=1, per_host=60), 0)
    floor = np.full(view.floor.shape, 1.0)
    view = replace(view, floor=floor, place=np.full(len(view.vms), NO_HOST))
    board = Board(view, view.place)
    gangs = GangBoard(view, board, HardConstraints(snapshot, view))
    vms = np.arange(len(view.vms))
    assert gangs.keep(vms, np.full(len(vms), 1))
    assert board.on(1).tolist() == vms.tolist()
    gangs.leave(vms)
    assert gangs.take(vms)
    assert np.unique(board.place).tolist() == [0]
    assert board.on(0).tolist() == vms.tolist()


def test_a_gang_that_has_no_room_where_it_is_leaves_nothing_there() -> None:
    """Its first VM fits on the host, its second one does not."""
    view = market_view(snapshot := crowded(2, seed=1, per_host=2), 0)
    view = replace(view, floor=np.full(view.floor.shape, 2000.0), place=np.full(4, NO_HOST))
    board = Board(view, view.place)
    gangs = GangBoard(view, board, HardConstraints(snapshot, view))
    assert not gangs.keep(np.array([0, 1]), np.array([1, 1]))
    assert board.place.tolist() == [NO_HOST] * 4
    assert not gangs.take(np.arange(3))
    assert board.place.tolist() == [NO_HOST] * 4
    assert gangs.take(np.arange(2))
    assert board.place.tolist() == [0, 1, NO_HOST, NO_HOST]


@settings(max_examples=EXAMPLES)
@given(SEEDS, st.floats(0.05, 1.5))
def test_the_first_test_of_lone_orders_agrees_with_their_placement(seed: int, size: float) -> None:
    """Placed one by one on the board without other orders, they fit exactly if it says so.

    No VM may move for them.
    """
    rng = np.random.default_rng(seed)
    snapshot = in_tens(tangled(seed, hosts=6, vms=40))
    view = market_view(snapshot, 0)
    rows = np.flatnonzero(rng.random(len(view.vms)) < 0.7)
    if not len(view.hosts) or not len(rows):
        return
    floor = view.floor.copy()
    floor[rows] = np.round(view.size[rows] * size, -1)
    view = replace(view, floor=floor)
    rules = HardConstraints(snapshot, view)
    _, order = np.unique(rng.integers(0, 5, len(rows)), return_inverse=True)
    others = view.place.copy()
    others[rows] = NO_HOST
    none = StuckVms(np.zeros(0, dtype=np.int64), np.zeros((0, floor.shape[1])))
    moves = RoomByMoves(snapshot.vms.owner[view.vms], np.zeros(len(view.vms), dtype=bool))
    lone = LoneOrders(view, rules, rows, order, others, none, moves)
    for number in range(int(order.max()) + 1):
        vms = rows[order == number]
        there, waiting = vms[view.place[vms] != NO_HOST], vms[view.place[vms] == NO_HOST]
        gangs = GangBoard(view, Board(view, others), rules)
        if gangs.keep(there, view.place[there]):
            fits = gangs.take(waiting)
        else:
            fits = bool(view.movable[there].all()) and gangs.take(vms)
        assert lone.fits(number, there, waiting) == fits


@pytest.mark.parametrize("seed", range(10))
def test_allowed_hosts_have_one_layout(seed: int) -> None:
    """With and without requirements: numba compiles its functions for each layout that it meets."""
    snapshot = tangled(seed)
    vms = replace(snapshot.vms, requirement=np.full(len(snapshot.vms), NO_ROW))
    bare = replace(snapshot, requirements=no_rows(Requirements), vms=vms)
    for seen in (snapshot, bare):
        rules = HardConstraints(seen, market_view(seen, 0))
        assert rules.classes.flags.c_contiguous

"""The placement baselines choose exactly what a plain search over all hosts chooses."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.cluster import Floats
from merkatd.cluster.columns import NO_HOST
from simulator.baselines.placement.best_fit import BestFit
from simulator.baselines.placement.ffd_sum import FfdSum
from simulator.baselines.placement.first_fit import FirstFit
from simulator.baselines.placement.random_fit import RandomFit
from simulator.baselines.placement.worst_fit import WorstFit
from simulator.kernel.kernel_deciders import NO_ROOM, Placer
from tests.lengths import shorten

Choice = Callable[[Floats, Floats, Floats], int]
"""Function from free room, capacity and a VM's floor to the chosen host of those that fit."""


def fitting(room: Floats, floor: Floats) -> list[int]:
    """Return the hosts with room, one after the other."""
    return [row for row, free in enumerate(room) if all(free >= floor)]


def first(room: Floats, _capacity: Floats, floor: Floats) -> int:
    """Return the first host with room."""
    return min(fitting(room, floor), default=NO_HOST)


def _left(room: Floats, capacity: Floats, host: int) -> float:
    return float((room[host] / np.maximum(capacity.max(axis=0), 1e-12)).sum())


def fullest(room: Floats, capacity: Floats, floor: Floats) -> int:
    """Return the host with the least room that suffices."""
    hosts = fitting(room, floor)
    return min(hosts, key=lambda host: (_left(room, capacity, host), host), default=NO_HOST)


def emptiest(room: Floats, capacity: Floats, floor: Floats) -> int:
    """Return the host with the most room."""
    hosts = fitting(room, floor)
    return min(hosts, key=lambda host: (-_left(room, capacity, host), host), default=NO_HOST)


def plainly(choose: Choice, room: Floats, capacity: Floats, floors: Floats) -> list[int]:
    """Place VMs in order by a plain search."""
    room, hosts = room.copy(), []
    for floor in floors:
        host = choose(room, capacity, floor)
        if host != NO_HOST:
            room[host] -= floor
        hosts.append(host)
    return hosts


def ffd_plainly(room: Floats, capacity: Floats, floors: Floats) -> list[int]:
    """Place the VMs with the largest volume first, on the first of the hosts by volume."""
    weights = floors.sum(axis=0) / np.maximum(capacity.sum(axis=0), 1e-12)
    hosts = sorted(range(len(room)), key=lambda host: -float((capacity[host] * weights).sum()))
    vms = sorted(range(len(floors)), key=lambda vm: -float((floors[vm] * weights).sum()))
    room, chosen = room.copy(), [NO_HOST] * len(floors)
    for vm in vms:
        for host in hosts:
            if all(room[host] >= floors[vm]):
                room[host] -= floors[vm]
                chosen[vm] = host
                break
    return chosen


amounts = st.sampled_from([0.0, 1.0, 2.0, 2.5, 4.0, 7.0])
pairs = st.lists(st.tuples(amounts, amounts), min_size=1, max_size=12)


def table(rows: list[tuple[float, float]]) -> Floats:
    """Return [rows, 2]."""
    return np.array(rows, dtype=float).reshape(len(rows), 2)


PLAIN: dict[str, tuple[Callable[[], Placer], Callable[[Floats, Floats, Floats], list[int]]]] = {
    "first": (FirstFit, lambda *given: plainly(first, *given)),
    "best": (BestFit, lambda *given: plainly(fullest, *given)),
    "worst": (WorstFit, lambda *given: plainly(emptiest, *given)),
    "ffd": (FfdSum, ffd_plainly),
}


@pytest.mark.parametrize("name", PLAIN)
@settings(max_examples=shorten(300, 60), deadline=None)
@given(capacity=pairs, batches=st.lists(pairs, min_size=1, max_size=4), seed=st.integers(0, 99))
def test_the_same_choice_as_a_plain_search(
    name: str,
    capacity: list[tuple[float, float]],
    batches: list[list[tuple[float, float]]],
    seed: int,
) -> None:
    """In every period, while hosts close, open again and become free in between."""
    make, search = PLAIN[name]
    rng = np.random.default_rng(seed)
    sizes = table(capacity)
    room = sizes.copy()
    placer = make()
    placer.start(room, sizes)
    for batch in batches:
        floors = table(batch)
        expected = search(room, sizes, floors)
        hosts = placer.place(floors, rng)
        assert hosts.tolist() == expected
        for host, floor in zip(hosts.tolist(), floors, strict=True):
            if host != NO_HOST:
                room[host] -= floor
        changed = np.flatnonzero(rng.random(len(room)) < 0.4)
        emptied = rng.random(len(changed)) < 0.7
        room[changed] = np.where(emptied[:, np.newaxis], sizes[changed], NO_ROOM)
        placer.update(changed, room[changed])


def test_random_fit_takes_each_host_with_room_equally_often() -> None:
    """Whatever classes the hosts are in; within 4 standard errors of equal parts."""
    room = table([(4.0, 4.0)] * 5 + [(7.0, 7.0)] * 2 + [(2.0, 7.0)] + [(1.0, 1.0)] * 2)
    rng = np.random.default_rng(1)
    counts = np.zeros(len(room))
    tries = 4_000
    for _ in range(tries):
        placer = RandomFit()
        placer.start(room, room)
        counts[placer.place(table([(2.0, 2.0)]), rng)] += 1
    assert counts[8:].sum() == 0
    error = np.sqrt(tries * (1 / 8) * (7 / 8))
    assert (np.abs(counts[:8] - tries / 8) < 4 * error).all()


@settings(max_examples=shorten(200, 40), deadline=None)
@given(capacity=pairs, batch=pairs, seed=st.integers(0, 99))
def test_random_fit_keeps_to_room(
    capacity: list[tuple[float, float]], batch: list[tuple[float, float]], seed: int
) -> None:
    """It places a VM exactly if some host has room for it."""
    room, floors = table(capacity), table(batch)
    placer = RandomFit()
    placer.start(room, room)
    hosts = placer.place(floors, np.random.default_rng(seed))
    left = room.copy()
    for host, floor in zip(hosts.tolist(), floors, strict=True):
        assert (host == NO_HOST) == (not fitting(left, floor))
        if host != NO_HOST:
            left[host] -= floor
    assert (left >= 0).all()


def test_first_fit_finds_the_last_of_many_hosts() -> None:
    """Where no host but the last has both resources; the upper nodes seem to suffice everywhere."""
    room = np.tile([[4.0, 1.0], [1.0, 4.0]], (500, 1))
    room = np.concatenate([room, [[3.0, 3.0]]])
    placer = FirstFit()
    placer.start(room, room)
    hosts = placer.place(np.array([[2.0, 2.0], [2.0, 2.0], [1.0, 1.0]]), np.random.default_rng(0))
    assert hosts.tolist() == [1000, NO_HOST, 0]

"""Newscast: agents keep the newest peers, and know nothing that no message told them."""

from copy import deepcopy
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.agents.message_network import MessageBatch, MessageNetwork, MessageTerms
from simulator.agents.newscast_agents import (
    ANSWER,
    REQUEST,
    NewscastAgents,
    NewscastTerms,
    random_peers,
)
from simulator.agents.view_merge import CYCLE, NO_PEER, PEER, Views, keep_near, merge_messages
from tests.lengths import EXAMPLES, shorten
from tests.simulator.agents.overlay_measures import as_networkx

NO_TOPOLOGY = np.zeros((100, 0), dtype=np.int32)


def racks(count: int, size: int) -> Any:
    """Return a topology of two levels: racks of this size, and groups of ten racks."""
    agents = np.arange(count)
    return np.stack((agents // (10 * size), agents // size), axis=1)


def ring(count: int) -> Any:
    """Return views in which each agent knows only the next one."""
    return (np.arange(count)[:, None] + 1) % count


def peers_of(agents: NewscastAgents, agent: int) -> list[int]:
    """Return the peers that an agent knows."""
    return [int(peer) for peer in agents.views[agent, :, PEER] if peer != NO_PEER]


class WatchedNetwork(MessageNetwork):
    """A network that keeps a copy of each message of an agent."""

    def __init__(self, terms: MessageTerms, seed: int, agent: int) -> None:
        super().__init__(terms, seed)
        self.agent = agent
        self.seen: list[tuple[str, int, int, bytes]] = []

    def send(self, batch: MessageBatch, content_bytes: int) -> None:
        """Note the messages that the agent sends."""
        for at in np.flatnonzero(batch.sender == self.agent):
            content = batch.content[batch.row[at]].tobytes()
            self.seen.append((batch.kind, batch.sent, int(batch.receiver[at]), content))
        super().send(batch, content_bytes)


def poison(agents: NewscastAgents, own: int) -> None:
    """Let each other agent know nothing, or random peers, as new as can be."""
    others = np.arange(len(agents)) != own
    draws = np.random.default_rng(agents.cycle_number)
    count, entries = agents.views[others].shape[:2]
    peers = draws.integers(0, len(agents), (count, entries))
    agents.views[others, :, PEER] = np.where(draws.random((count, 1)) < 0.5, NO_PEER, peers)
    agents.views[others, :, CYCLE] = 1_000_000


@pytest.mark.parametrize("near_part", [0.0, 0.4])
@pytest.mark.parametrize("delays", [(0, 0), (0, 2), (1, 3)])
def test_an_agent_reads_only_its_own_row_and_its_messages(
    delays: tuple[int, int], near_part: float
) -> None:
    """Nothing changes for it if all other rows are poisoned, at any time in a cycle."""
    count, own = 60, 7
    network = WatchedNetwork(MessageTerms(0.1, *delays), seed=1, agent=own)
    terms = NewscastTerms(entries=8, near_part=near_part)
    clean = NewscastAgents(random_peers(count, 4), network, terms, topology=racks(count, 6), seed=1)
    sent = 0
    for _ in range(12):
        poisoned = deepcopy(clean)
        clean.cycle()
        watched = deepcopy(poisoned)
        poison(watched, own)
        watched.send_requests()
        poisoned.send_requests()
        poison(poisoned, own)
        requests = poisoned.network.deliver(poisoned.cycle_number, REQUEST, poisoned.alive)
        poisoned.send_answers(requests)
        poison(poisoned, own)
        poisoned.merge(requests)
        poison(poisoned, own)
        answers = poisoned.network.deliver(poisoned.cycle_number, ANSWER, poisoned.alive)
        poisoned.merge(answers)
        assert clean.views[own].tobytes() == poisoned.views[own].tobytes()
        assert clean.views.tobytes() != poisoned.views.tobytes()
        assert isinstance(poisoned.network, WatchedNetwork)
        assert isinstance(watched.network, WatchedNetwork)
        assert network.seen == poisoned.network.seen
        assert network.seen[: len(watched.network.seen)] == watched.network.seen
        assert len(watched.network.seen) > sent
        sent = len(network.seen)
    assert sent > 15


def view_of(drawn: dict[int, int], entries: int) -> Views:
    """Return the newest of these peers and cycles as a view."""
    newest = sorted(drawn.items(), key=lambda item: -item[1])[:entries]
    view = np.zeros((entries, 2), dtype=np.int32)
    view[:, PEER] = NO_PEER
    for entry, pair in enumerate(newest):
        view[entry] = pair
    return view


known_peers = st.dictionaries(st.integers(0, 40), st.integers(0, 9), max_size=30)


@settings(max_examples=10 * EXAMPLES)
@given(known_peers, known_peers, st.integers(1, 12), st.integers(0, 9), st.integers(0, 1 << 29))
def test_a_merge_keeps_the_newest(
    own: dict[int, int], other: dict[int, int], entries: int, oldest: int, tie_seed: int
) -> None:
    """As a dictionary does: each peer once, none too old, the newest first, never the agent."""
    receiver, sender = 3, 4
    own = {peer: cycle for peer, cycle in own.items() if peer != receiver}
    views = np.zeros((50, entries, 2), dtype=np.int32)
    views[:, :, PEER] = NO_PEER
    before = views.copy()
    views[receiver] = view_of(own, entries)
    content = view_of(other, entries)[None]
    union = {sender: 10}
    for peer, cycle in (*views[receiver].tolist(), *content[0].tolist()):
        if peer >= 0:
            union[peer] = max(cycle, union.get(peer, cycle))
    union.pop(receiver, None)
    one = np.zeros(1, dtype=np.int32)
    merge_messages(
        views, content, one, one + sender, one + receiver, 10, oldest, tie_seed, NO_TOPOLOGY, 0
    )
    kept = [(int(peer), int(cycle)) for peer, cycle in views[receiver] if peer >= 0]
    assert all(union[peer] == cycle for peer, cycle in kept)
    assert len(dict(kept)) == len(kept)
    expected = sorted((cycle for cycle in union.values() if cycle >= oldest), reverse=True)
    assert [cycle for _, cycle in kept] == expected[:entries]
    views[receiver] = before[receiver]
    assert views.tobytes() == before.tobytes()


@pytest.mark.parametrize("near_entries", [0, 3])
def test_machine_code_and_python_keep_the_same_peers(near_entries: int) -> None:
    """To the bit, with equal cycles and a topology."""
    python = getattr(merge_messages, "py_func", merge_messages)
    draws = np.random.default_rng(5)
    first = NewscastAgents(random_peers(40, 8), terms=NewscastTerms(entries=8))
    for _ in range(4):
        first.cycle()
    second = first.views.copy()
    senders, receivers = (draws.integers(0, 40, 200, dtype=np.int32) for _ in range(2))
    content = first.views.copy()
    topology = racks(40, 4).astype(np.int32)
    terms = (content, senders, senders, receivers, 4, 0, 99, topology, near_entries)
    merge_messages(first.views, *terms)
    python(second, *terms)
    assert first.views.tobytes() == second.tobytes() != content.tobytes()


def test_a_ring_becomes_a_random_graph() -> None:
    """All views fill, and any two agents are a few steps apart."""
    count = shorten(5000, 600)
    agents = NewscastAgents(ring(count), seed=2)
    for _ in range(30):
        agents.cycle()
    assert (agents.views[:, :, PEER] >= 0).all()
    graph = as_networkx(agents.overlay())
    assert nx.is_connected(graph)
    assert nx.approximation.diameter(graph, seed=1) <= 4
    # A random graph has a clustering of about degree / count. Newscast has more, a ring of
    # neighbours as many would have 0.7.
    assert nx.average_clustering(graph) < 0.35


def test_no_agent_is_known_to_very_many() -> None:
    """Each is in as many views on average, whatever its number."""
    count = shorten(20_000, 3000)
    agents = NewscastAgents(random_peers(count, 20), seed=3)
    known_by = np.zeros(count)
    cycles = 100
    for _ in range(cycles):
        agents.cycle()
        known_by += np.bincount(agents.views[:, :, PEER].ravel(), minlength=count)
    mean = known_by / cycles
    assert mean.mean() == pytest.approx(20.0)
    assert mean.max() < 40.0
    halves = mean[: count // 2].mean(), mean[count // 2 :].mean()
    assert halves[0] == pytest.approx(halves[1], rel=0.02)


@pytest.mark.parametrize("loss", [0.0, 0.2])
def test_crashed_agents_are_forgotten(loss: float) -> None:
    """And the others stay connected, though half of all agents crash at once."""
    count = 400
    agents = NewscastAgents(
        random_peers(count, 20), MessageNetwork(MessageTerms(loss=loss), seed=4), seed=4
    )
    for _ in range(10):
        agents.cycle()
    crashed = agents.crash_part(0.5)
    assert count // 3 < len(crashed) < 2 * count // 3
    assert np.isin(agents.views[:, :, PEER], crashed).any()
    for _ in range(30):
        agents.cycle()
    assert not np.isin(agents.views[:, :, PEER], crashed).any()
    graph = as_networkx(agents.overlay(), np.flatnonzero(agents.alive))
    assert nx.is_connected(graph)
    assert agents.network.totals.undeliverable > 0
    agents.restart(crashed[:5], agents.random_contacts(5))
    for _ in range(15):
        agents.cycle()
    assert np.isin(crashed[:5], agents.views[:, :, PEER]).all()


def test_old_entries_are_dropped_though_there_is_a_free_place() -> None:
    """So a small group forgets its crashed agents as well."""
    terms = NewscastTerms(entries=20, most_age=5)
    agents = NewscastAgents(random_peers(10, 9), terms=terms, seed=8)
    for _ in range(5):
        agents.cycle()
    agents.crash(np.array([1, 2, 3]))
    for _ in range(12):
        agents.cycle()
    assert set(agents.views[:, :, PEER].ravel().tolist()) == {NO_PEER, 0, 4, 5, 6, 7, 8, 9}


def test_new_agents_become_known() -> None:
    """From a single contact each, within a few cycles; the last of a view is never dropped."""
    agents = NewscastAgents(random_peers(200, 20), terms=NewscastTerms(most_age=1), seed=5)
    agents.cycle()
    new = agents.join(agents.random_contacts(50))
    assert new.tolist() == list(range(200, 250))
    assert len(agents) == 250
    assert [len(peers_of(agents, int(agent))) for agent in new] == [1] * 50
    for _ in range(12):
        agents.cycle()
    assert np.isin(new, agents.views[:, :, PEER]).all()
    assert min(len(peers_of(agents, int(agent))) for agent in new) > 1


@pytest.mark.parametrize("near_part", [0.0, 0.5])
def test_the_topology_brings_near_peers_into_views(near_part: float) -> None:
    """Half of the entries are for the own rack then, and no rack is cut off."""
    count, size = 1000, 20
    terms = NewscastTerms(near_part=near_part)
    agents = NewscastAgents(random_peers(count, 20), terms=terms, topology=racks(count, size))
    for _ in range(30):
        agents.cycle()
    peers = agents.views[:, :, PEER]
    near = (peers // size == np.arange(count)[:, None] // size).mean()
    assert near == pytest.approx(near_part, abs=0.06)
    graph = as_networkx(agents.overlay())
    assert nx.is_connected(graph)
    graph.remove_nodes_from(np.random.default_rng(1).choice(count, count // 10, replace=False))
    assert nx.is_connected(graph)


@pytest.mark.parametrize(
    ("near_entries", "kept"),
    [
        (2, [1, 2, 10, 20, 11]),
        (4, [1, 2, 3, 10, 20]),
        (0, [1, 2, 10, 20, 11]),
        (1, [1, 2, 10, 20, 11]),
    ],
)
def test_places_for_near_and_for_other_peers(near_entries: int, kept: list[int]) -> None:
    """The nearest have theirs; the rest are for the newest outside the rack, then for any."""
    rack_of = {0: (0, 0), 1: (0, 0), 2: (0, 0), 3: (0, 0), 10: (0, 1), 11: (0, 1), 20: (1, 2)}
    topology = np.full((30, 2), 9, dtype=np.int32)
    for agent, place in rack_of.items():
        topology[agent] = place
    order = [1, 2, 3, 10, 20, 11]
    union = np.array([(peer, 50 - at) for at, peer in enumerate(order)], dtype=np.int32)
    taken = np.zeros(len(union), dtype=bool)
    count = keep_near(union, len(union), 5, near_entries, topology, 0, taken)
    assert union[:count, PEER].tolist() == kept


def test_samples_are_different_peers_of_the_view() -> None:
    """As many as asked, or all that there are."""
    agents = NewscastAgents(random_peers(50, 6), terms=NewscastTerms(entries=6), seed=6)
    for wanted in (2, 6):
        sampled = agents.sample(wanted)
        assert sampled.shape == (50, wanted)
        for agent in range(50):
            peers = [int(peer) for peer in sampled[agent] if peer != NO_PEER]
            known = peers_of(agents, agent)
            assert len(peers) == min(wanted, len(known))
            assert len(set(peers)) == len(peers)
            assert set(peers) <= set(known)


def test_equal_seeds_give_equal_views() -> None:
    """To the bit; another seed gives others."""

    def views(seed: int) -> bytes:
        network = MessageNetwork(MessageTerms(0.1, 0, 2), seed)
        agents = NewscastAgents(random_peers(80, 10), network, seed=seed)
        for _ in range(8):
            agents.cycle()
            agents.crash_part(0.01)
        return agents.views.tobytes()

    assert views(1) == views(1)
    assert views(1) != views(2)


def test_losses_change_no_crashes_and_no_contacts() -> None:
    """Each purpose has random numbers of its own."""

    def crashes(loss: float) -> list[list[int]]:
        network = MessageNetwork(MessageTerms(loss=loss), seed=7)
        agents = NewscastAgents(random_peers(80, 10), network, seed=7)
        seen = []
        for _ in range(6):
            agents.cycle()
            seen.append(agents.crash_part(0.05).tolist())
            seen.append(agents.random_contacts(3).tolist())
        return seen

    assert crashes(0.0) == crashes(0.5)
    assert any(crashes(0.0))


def test_wrong_parameters_are_refused() -> None:
    """With the value and what is accepted."""
    with pytest.raises(ValueError, match="`entries` must be at least 1"):
        NewscastTerms(entries=0)
    with pytest.raises(ValueError, match="`near_part` must be between 0 and 1"):
        NewscastTerms(near_part=1.5)
    with pytest.raises(ValueError, match="`most_age` must be at least 1"):
        NewscastTerms(most_age=0)
    with pytest.raises(ValueError, match="needs the topology"):
        NewscastAgents(ring(5), terms=NewscastTerms(near_part=0.5))
    with pytest.raises(ValueError, match="between 0 and 4, or -1"):
        NewscastAgents(ring(5) + 1)

"""Overlays have the properties for which they are chosen."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from merkatd.cluster import Ints
from simulator.agents.newscast_agents import NewscastAgents, random_peers
from simulator.agents.overlay_graphs import (
    OverlayGraph,
    random_regular_overlay,
    scale_free_overlay,
)
from tests.lengths import EXAMPLES, shorten
from tests.simulator.agents.overlay_measures import as_networkx

COUNT = shorten(20_000, 3000)
LINKS = 3


def newscast_overlay(count: int, seed: int) -> OverlayGraph:
    """Return the graph after 20 cycles."""
    agents = NewscastAgents(random_peers(count, 20, seed), seed=seed)
    for _ in range(20):
        agents.cycle()
    return agents.overlay()


def expected_parts(degrees: Ints, links: int) -> Ints:
    """Return how often each degree occurs in a large scale-free graph (Bollobas et al. 2001)."""
    parts = 2 * links * (links + 1) / (degrees * (degrees + 1.0) * (degrees + 2.0))
    return np.asarray(parts)


def test_degrees_of_a_scale_free_overlay() -> None:
    """Each degree occurs as often as known, within four standard errors; few agents have many."""
    count = shorten(200_000, 40_000)
    overlay = scale_free_overlay(count, LINKS, seed=1)
    degrees = overlay.degrees
    first = LINKS + 1
    assert degrees.sum() == 2 * (first * LINKS // 2 + LINKS * (count - first))
    assert degrees.min() == LINKS
    assert degrees.max() > 20 * degrees.mean()
    for degree in range(LINKS, 20):
        part = float(expected_parts(np.array(degree), LINKS))
        error = np.sqrt(count * part)
        assert (degrees == degree).sum() == pytest.approx(count * part, abs=4.0 * error)


def test_exponent_of_a_scale_free_overlay() -> None:
    """The maximum-likelihood exponent of the tail is 3, within three standard errors of seeds."""
    least, shift = 30, 1.0
    exponents = []
    for seed in range(shorten(30, 8)):
        tail = scale_free_overlay(shorten(100_000, 40_000), LINKS, seed).degrees
        tail = tail[tail >= least]
        # Degrees are whole, and k (k+1) (k+2) is nearly (k+1)^3: both shift the continuous form.
        exponents.append(1.0 + len(tail) / np.log((tail + shift) / (least + shift - 0.5)).sum())
    error = np.std(exponents, ddof=1) / np.sqrt(len(exponents))
    assert np.mean(exponents) == pytest.approx(3.0, abs=3.0 * error)
    assert error < 0.05


def test_a_scale_free_overlay_attaches_to_the_known() -> None:
    """Early agents have more neighbours: in proportion to the root of count / number."""
    degrees = np.mean([scale_free_overlay(2000, LINKS, seed).degrees for seed in range(40)], axis=0)
    for number in (50, 200, 800):
        near = degrees[number - 20 : number + 20].mean()
        assert near == pytest.approx(LINKS * np.sqrt(2000 / number), rel=0.15)


@pytest.mark.parametrize(
    ("overlay", "least_part", "diameter"),
    [
        (scale_free_overlay(COUNT, LINKS, 2), 0.99, 9),
        (random_regular_overlay(COUNT, 10, 2), 1.0, 7),
        (newscast_overlay(COUNT, 2), 1.0, 5),
    ],
    ids=["scale free", "random regular", "newscast"],
)
def test_overlays_survive_failures(overlay: OverlayGraph, least_part: float, diameter: int) -> None:
    """They are connected; without a random tenth of the agents, nearly all others still are."""
    graph = as_networkx(overlay)
    assert nx.is_connected(graph)
    assert nx.approximation.diameter(graph, seed=1) <= diameter
    draws = np.random.default_rng(3)
    graph.remove_nodes_from(draws.choice(COUNT, COUNT // 10, replace=False).tolist())
    largest = max(nx.connected_components(graph), key=len)
    assert len(largest) >= least_part * (COUNT - COUNT // 10)
    part = graph.subgraph(largest)
    assert nx.approximation.diameter(part, seed=1) <= diameter + 2


@settings(max_examples=3 * EXAMPLES, deadline=None)
@given(st.integers(2, 40), st.data(), st.integers(0, 1000))
def test_random_regular_overlays(count: int, data: st.DataObject, seed: int) -> None:
    """Each agent has as many neighbours, and each edge is there once."""
    degree = data.draw(st.integers(0, count - 1).filter(lambda drawn: drawn * count % 2 == 0))
    overlay = random_regular_overlay(count, degree, seed)
    assert (overlay.degrees == degree).all()
    graph = as_networkx(overlay)
    assert graph.number_of_edges() == degree * count // 2
    assert nx.number_of_selfloops(graph) == 0


def test_random_regular_overlays_are_even() -> None:
    """Of the 70 graphs of six agents with two neighbours each, all are as probable."""
    found: dict[bytes, int] = {}
    rounds = shorten(14_000, 2100)
    for seed in range(rounds):
        edges = random_regular_overlay(6, 2, seed).edges().tobytes()
        found[edges] = found.get(edges, 0) + 1
    assert len(found) == 70
    assert stats.chisquare(list(found.values())).pvalue > 0.001


@settings(max_examples=3 * EXAMPLES)
@given(st.integers(1, 12), st.data())
def test_a_graph_of_edges(count: int, data: st.DataObject) -> None:
    """Has each edge once, in both rows, and no loop."""
    agent = st.integers(0, count - 1)
    drawn = data.draw(st.lists(st.tuples(agent, agent), max_size=40))
    pairs = np.array(drawn, dtype=np.int64).reshape(-1, 2)
    overlay = OverlayGraph.of_edges(count, pairs[:, 0], pairs[:, 1])
    expected = {(min(pair), max(pair)) for pair in drawn if pair[0] != pair[1]}
    assert [tuple(pair) for pair in overlay.edges().tolist()] == sorted(expected)
    known = overlay.known()
    for first in range(count):
        neighbours = overlay.neighbours(first).tolist()
        assert neighbours == [
            other for other in range(count) if (min(first, other), max(first, other)) in expected
        ]
        assert [peer for peer in known[first].tolist() if peer >= 0] == neighbours


def test_each_seed_has_a_graph_of_its_own() -> None:
    """And the same seed gives the same graph."""
    for make in (scale_free_overlay, random_regular_overlay):
        first = make(100, 4, 1).peers.tolist()
        assert first == make(100, 4, 1).peers.tolist()
        assert first != make(100, 4, 2).peers.tolist()


def test_impossible_overlays_are_refused() -> None:
    """With the value and what is accepted."""
    with pytest.raises(ValueError, match=r"`links` must be between 1 and 4 \(got 5\)"):
        scale_free_overlay(5, 5)
    with pytest.raises(ValueError, match=r"even \(got 3 for 5 agents\)"):
        random_regular_overlay(5, 3)

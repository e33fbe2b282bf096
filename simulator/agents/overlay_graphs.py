"""Overlay graphs: which agents know each other, and generators of such graphs.

All graphs are undirected, without loops and without double edges.
"""

from dataclasses import dataclass

import numpy as np

from merkatd.cluster import Ints
from merkatd.placement.base.compiled import compiled
from simulator.workloads.random_streams import StreamPurpose, stream_of

ATTEMPTS = 1000
"""Repairs of a random regular graph until a new one is drawn, and new graphs until an error."""
EXACT_DEGREE = 3
"""The most neighbours with which a random regular graph is drawn again instead of repaired."""


@dataclass(frozen=True, slots=True)
class OverlayGraph:
    """The neighbours of each agent, one agent after the other."""

    begin: Ints
    """[agents + 1]: where the neighbours of each agent begin in `peers`."""
    peers: Ints

    @classmethod
    def of_edges(cls, count: int, first: Ints, second: Ints) -> "OverlayGraph":
        """Return the graph with these edges. Loops, and edges given again, do not count."""
        keys = np.unique(_keys(count, first, second))
        low, high = keys // count, keys % count
        low, high = low[low != high], high[low != high]
        ends = np.concatenate((low, high))
        others = np.concatenate((high, low))
        begin = np.zeros(count + 1, dtype=np.int64)
        np.cumsum(np.bincount(ends, minlength=count), out=begin[1:])
        return cls(begin, others[np.lexsort((others, ends))])

    def __len__(self) -> int:
        return len(self.begin) - 1

    @property
    def degrees(self) -> Ints:
        """The number of neighbours of each agent."""
        return np.diff(self.begin)

    def edges(self) -> Ints:
        """Return [edges, 2]: the agents of each edge, the lower number first."""
        ends = np.repeat(np.arange(len(self)), self.degrees)
        once = ends < self.peers
        return np.stack((ends[once], self.peers[once]), axis=1)

    def neighbours(self, agent: int) -> Ints:
        """Return the neighbours of an agent, in the order of their numbers."""
        return self.peers[self.begin[agent] : self.begin[agent + 1]]

    def known(self) -> Ints:
        """Return a row of neighbours for each agent, as wide as the most; free entries are -1."""
        degrees = self.degrees
        table = np.full((len(self), int(degrees.max(initial=0))), -1, dtype=np.int64)
        ends = np.repeat(np.arange(len(self)), degrees)
        table[ends, np.arange(len(self.peers)) - self.begin[ends]] = self.peers
        return table


def scale_free_overlay(count: int, links: int, seed: int = 0) -> OverlayGraph:
    """Return a graph after Barabasi and Albert, in which few agents have many neighbours.

    The first `links` + 1 agents all know each other. Each later agent chooses `links` of those
    before it, each with a probability in proportion to its neighbours.
    """
    if not 1 <= links < count:
        raise ValueError(f"`links` must be between 1 and {count - 1} (got {links})")
    draws = stream_of(seed, StreamPurpose.OVERLAYS, "scale free")
    ends = preferential_ends(count, links, draws)
    return OverlayGraph.of_edges(count, ends[0::2], ends[1::2])


@compiled
def preferential_ends(count: int, links: int, draws: np.random.Generator) -> Ints:
    """Return both ends of each edge, one after the other.

    An agent occurs here once for each of its neighbours. So a random entry is an agent with the
    probability that preferential attachment wants.
    """
    first = links + 1
    ends = np.empty(first * links + 2 * links * (count - first), dtype=np.int64)
    filled = 0
    for agent in range(first):
        for other in range(agent):
            ends[filled] = agent
            ends[filled + 1] = other
            filled += 2
    for agent in range(first, count):
        before = filled
        while filled < before + 2 * links:
            chosen = ends[int(draws.random() * before)]
            double = False
            for place in range(before + 1, filled, 2):
                double |= ends[place] == chosen
            if not double:
                ends[filled] = agent
                ends[filled + 1] = chosen
                filled += 2
    return ends


def random_regular_overlay(count: int, degree: int, seed: int = 0) -> OverlayGraph:
    """Return a random graph in which each agent has the same number of neighbours.

    Ends of edges are joined at random. A graph with loops or double edges is drawn again if there
    are few neighbours: all graphs are as probable then. Otherwise that takes too long, so the wrong
    edges are cut, together with as many random others, and their ends joined again.
    """
    if not 0 <= degree < count or degree * count % 2:
        raise ValueError(
            f"`degree` must be between 0 and {count - 1}, and `degree` times the number of agents "
            f"even (got {degree} for {count} agents)"
        )
    draws = stream_of(seed, StreamPurpose.OVERLAYS, "random regular")
    if degree > (count - 1) // 2:
        # Few edges are absent from a dense graph: they are such a graph as well.
        absent = _random_regular_ends(count, count - 1 - degree, draws)
        keys = np.setdiff1d(
            _keys(count, *np.triu_indices(count, 1)), _keys(count, absent[:, 0], absent[:, 1])
        )
        return OverlayGraph.of_edges(count, keys // count, keys % count)
    ends = _random_regular_ends(count, degree, draws)
    return OverlayGraph.of_edges(count, ends[:, 0], ends[:, 1])


def _random_regular_ends(count: int, degree: int, draws: np.random.Generator) -> Ints:
    for _ in range(ATTEMPTS):
        ends = draws.permutation(np.repeat(np.arange(count), degree)).reshape(-1, 2)
        for _ in range(ATTEMPTS):
            keys = _keys(count, ends[:, 0], ends[:, 1])
            wrong = np.ones(len(keys), dtype=bool)
            wrong[np.unique(keys, return_index=True)[1]] = False
            wrong |= ends[:, 0] == ends[:, 1]
            if not wrong.any():
                return ends
            if degree <= EXACT_DEGREE:
                break
            cut = np.flatnonzero(wrong)
            cut = np.union1d(cut, draws.integers(0, len(ends), len(cut)))
            ends[cut] = draws.permutation(ends[cut].ravel()).reshape(-1, 2)
    raise RuntimeError(f"Found no graph of {count} agents with {degree} neighbours each")


def _keys(count: int, first: Ints, second: Ints) -> Ints:
    """Return a number for each edge, the same for both directions."""
    keys: Ints = np.minimum(first, second) * count + np.maximum(first, second)
    return keys

"""Peer sampling by newscast: each agent knows a few others, and exchanges them with a random one.

In each cycle an agent sends its view and its own address to a random peer of its view, which
answers with its own view. Both keep the newest entries. The views are a random graph that changes
in every cycle; entries of agents that are down become old and disappear.

An agent reads its own row of `views` and the messages that arrive, and nothing else. What it sends
is a copy of its view at the begin of the cycle, so the order of the agents has no effect.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from merkatd.cluster import Bools, Ints
from merkatd.cluster.columns import AnyInts
from simulator.agents.message_network import AgentRows, MessageBatch, MessageNetwork
from simulator.agents.overlay_graphs import OverlayGraph
from simulator.agents.view_merge import CYCLE, NO_PEER, PEER, Views, count_known, merge_messages
from simulator.workloads.random_streams import StreamPurpose, stream_of

ENTRY_BYTES: Final = 8
"""An address and a time stamp of four bytes each, in the message as in the view."""
REQUEST: Final = "newscast request"
ANSWER: Final = "newscast answer"


@dataclass(frozen=True, slots=True)
class NewscastTerms:
    """The parameters of the protocol."""

    entries: int = 20
    """The most peers that an agent knows."""
    near_part: float = 0.0
    """The part of the entries for the nearest peers in the topology. 0: it has no effect."""
    most_age: int = 20
    """Older entries, in cycles, are dropped, except the last one of a view."""

    def __post_init__(self) -> None:
        if self.entries < 1:
            raise ValueError(f"`entries` must be at least 1 (got {self.entries})")
        if not 0.0 <= self.near_part <= 1.0:
            raise ValueError(f"`near_part` must be between 0 and 1 (got {self.near_part})")
        if self.most_age < 1:
            raise ValueError(f"`most_age` must be at least 1 (got {self.most_age})")

    @property
    def near_entries(self) -> int:
        """The entries for the nearest peers."""
        return int(self.near_part * self.entries)


class NewscastAgents:
    """Agents with a view each, in cycles."""

    def __init__(
        self,
        known: Ints,
        network: MessageNetwork | None = None,
        terms: NewscastTerms | None = None,
        *,
        topology: AnyInts | None = None,
        seed: int = 0,
    ) -> None:
        """Start agents that know these peers: a row for each agent, free entries are -1.

        `topology` has the place of each agent, from the widest level to the narrowest, as the
        column of hosts has it. An agent can read a peer's place from the peer's address.
        """
        count, width = known.shape
        if known.min(initial=NO_PEER) < NO_PEER or known.max(initial=NO_PEER) >= count:
            raise ValueError(f"Peers must be between 0 and {count - 1}, or -1 for a free entry")
        self.terms = terms or NewscastTerms()
        self.network = network or MessageNetwork(seed=seed)
        self.cycle_number = 0
        self.views: Views = np.zeros((count, self.terms.entries, 2), dtype=np.int32)
        self.views[:, :, PEER] = NO_PEER
        kept = min(width, self.terms.entries)
        # Free entries are at the end of each row.
        order = np.argsort(known[:, :width] < 0, axis=1, kind="stable")[:, :kept]
        self.views[:, :kept, PEER] = np.take_along_axis(known, order, axis=1)
        self.alive: Bools = np.ones(count, dtype=bool)
        self.topology: AgentRows = np.zeros((count, 0), dtype=np.int32)
        if topology is not None:
            self.topology = np.array(topology, dtype=np.int32)
        if self.terms.near_entries and not self.topology.shape[1]:
            raise ValueError("`near_part` above 0 needs the topology of the agents")
        self._seed = seed
        self._sent: Views = self.views

    def __len__(self) -> int:
        return len(self.views)

    @property
    def state_bytes(self) -> int:
        """The bytes of the views, and of their copies that messages under way contain."""
        copies = [self._sent, *(batch.content for batch in self.network.under_way())]
        different = {id(copy): copy.nbytes for copy in (self.views, *copies)}
        return sum(different.values())

    def cycle(self) -> None:
        """Let all agents that are alive exchange views once."""
        self.send_requests()
        requests = self.network.deliver(self.cycle_number, REQUEST, self.alive)
        self.send_answers(requests)
        self.merge(requests)
        self.merge(self.network.deliver(self.cycle_number, ANSWER, self.alive))
        self.cycle_number += 1

    def send_requests(self) -> None:
        """Send the view of each agent to a random peer in it."""
        self._sent = self.views  # frees the copy of the last cycle, unless messages contain it
        self._sent = self.views.copy()
        draws = stream_of(self._seed, StreamPurpose.PEER_CHOICES, number=self.cycle_number)
        known = count_known(self.views)
        entry = (draws.random(len(self), dtype=np.float32) * known).astype(np.int32)
        # Rounding can reach the number of entries.
        np.minimum(entry, np.maximum(known - 1, 0), out=entry)
        # Of several requests to an agent, the last one puts its sender first. So their order is
        # random; otherwise high numbers would be in more views than low ones.
        sender = draws.permutation(np.arange(len(self), dtype=np.int32))
        sender = sender[(self.alive & (known > 0))[sender]]
        receiver = self.views[sender, entry[sender], PEER]
        self._send(REQUEST, sender, receiver)

    def send_answers(self, requests: list[MessageBatch]) -> None:
        """Answer each request with the view of its receiver at the begin of the cycle."""
        if requests:
            receiver = np.concatenate([batch.sender for batch in requests])
            sender = np.concatenate([batch.receiver for batch in requests])
            self._send(ANSWER, sender, receiver)

    def merge(self, messages: list[MessageBatch]) -> None:
        """Merge the messages into the views of their receivers."""
        draws = stream_of(self._seed, StreamPurpose.VIEW_TIES, number=self.cycle_number)
        tie_seed = int(draws.integers(1 << 30))
        for batch in messages:
            merge_messages(
                self.views,
                batch.content,
                batch.row,
                batch.sender,
                batch.receiver,
                batch.sent,
                self.cycle_number - self.terms.most_age,
                tie_seed,
                self.topology,
                self.terms.near_entries,
            )

    def crash(self, agents: AnyInts) -> None:
        """Stop these agents. Messages to them are lost; those that they sent still arrive."""
        self.alive[agents] = False
        self.views[agents, :, PEER] = NO_PEER
        self.views[agents, :, CYCLE] = 0

    def crash_part(self, part: float) -> Ints:
        """Stop each agent with this probability, and return the agents that stopped."""
        draws = stream_of(self._seed, StreamPurpose.CRASHES, number=self.cycle_number)
        crashed = np.flatnonzero((draws.random(len(self)) < part) & self.alive)
        self.crash(crashed)
        return crashed

    def restart(self, agents: AnyInts, contacts: AnyInts) -> None:
        """Start crashed agents again; each knows only its contact."""
        self.alive[agents] = True
        self._meet(agents, contacts)

    def join(self, contacts: AnyInts, topology: AnyInts | None = None) -> Ints:
        """Add an agent for each contact, the only peer that it knows, and return the new agents.

        Without a topology, each new agent has the place of its contact.
        """
        count = len(contacts)
        new = np.arange(len(self), len(self) + count)
        self.views = np.concatenate(
            (self.views, np.zeros((count, *self.views.shape[1:]), np.int32))
        )
        self.views[new, :, PEER] = NO_PEER
        self.alive = np.concatenate((self.alive, np.ones(count, dtype=bool)))
        places = self.topology[contacts] if topology is None else topology
        self.topology = np.concatenate((self.topology, np.asarray(places, dtype=np.int32)))
        self._meet(new, contacts)
        return new

    def random_contacts(self, count: int) -> Ints:
        """Return random agents that are alive, for agents that join."""
        draws = stream_of(self._seed, StreamPurpose.JOINS, number=self.cycle_number)
        return draws.choice(np.flatnonzero(self.alive), count)

    def sample(self, count: int) -> AgentRows:
        """Return for each agent as many random peers of its view, each once; -1 if it has fewer.

        This is the service for other protocols. It draws the same peers again within a cycle.
        """
        draws = stream_of(self._seed, StreamPurpose.PEER_SAMPLES, number=self.cycle_number)
        peers = self.views[:, :, PEER]
        order = draws.random(peers.shape, dtype=np.float32)
        order[peers == NO_PEER] = 2.0
        chosen = np.argsort(order, axis=1)[:, :count]
        return np.take_along_axis(peers, chosen, axis=1)

    def overlay(self) -> OverlayGraph:
        """Return the graph of the agents that are alive: an edge joins an agent and its peer."""
        agents, entries = np.nonzero(self.views[:, :, PEER] != NO_PEER)
        peers = self.views[agents, entries, PEER].astype(np.int64)
        up = self.alive[agents] & self.alive[peers]
        return OverlayGraph.of_edges(len(self), agents[up], peers[up])

    def _meet(self, agents: AnyInts, contacts: AnyInts) -> None:
        self.views[agents, 0, PEER] = contacts
        self.views[agents, 0, CYCLE] = self.cycle_number

    def _send(self, kind: str, sender: AgentRows, receiver: AgentRows) -> None:
        """Send views; a message has the sender's address, and its size is that of a full view."""
        content_bytes = ENTRY_BYTES * (self.terms.entries + 1)
        batch = MessageBatch(kind, self.cycle_number, sender, receiver, sender, self._sent)
        self.network.send(batch, content_bytes)


def random_peers(count: int, known: int, seed: int = 0) -> Ints:
    """Return random peers for each agent. A peer that is drawn twice counts once."""
    draws = stream_of(seed, StreamPurpose.OVERLAYS, "random peers")
    peers = draws.integers(0, count - 1, (count, known))
    peers += peers >= np.arange(count)[:, None]
    peers.sort(axis=1)
    peers[:, 1:][peers[:, 1:] == peers[:, :-1]] = NO_PEER
    # All entries are equally old, so the first ones of a row stay longest.
    return draws.permuted(peers, axis=1)

"""Messages between agents: each has a size, may be lost, and arrives after some cycles.

A message is a copy: what its sender changes later does not change it. Agents send in batches. All
messages of a batch share one array of contents, of which each message has a row.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from merkatd.cluster import Bools
from simulator.workloads.random_streams import StreamPurpose, stream_of

AgentRows = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class MessageTerms:
    """How the network treats each message."""

    loss: float = 0.0
    """The probability that a message is lost."""
    least_delay: int = 0
    """Cycles until a message arrives. 0: in the cycle in which it was sent."""
    most_delay: int = 0
    """Each delay from the least to the most has the same probability."""
    header_bytes: int = 28
    """The bytes of a message without content: those of an IPv4 and UDP header."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.loss <= 1.0:
            raise ValueError(f"`loss` must be between 0 and 1 (got {self.loss})")
        if not 0 <= self.least_delay <= self.most_delay:
            raise ValueError(
                "`least_delay` must be between 0 and `most_delay` "
                f"(got {self.least_delay} and {self.most_delay})"
            )


@dataclass(frozen=True, slots=True)
class MessageBatch:
    """Messages of one kind that were sent in the same cycle."""

    kind: str
    sent: int
    """The cycle in which they were sent."""
    sender: AgentRows
    receiver: AgentRows
    row: AgentRows
    """The row of `content` that each message carries."""
    content: npt.NDArray[Any]

    def __len__(self) -> int:
        return len(self.sender)

    def of(self, chosen: Bools) -> "MessageBatch":
        """Return the chosen messages."""
        if chosen.all():
            return self
        sender = self.sender[chosen]
        row = sender if self.row is self.sender else self.row[chosen]
        return MessageBatch(self.kind, self.sent, sender, self.receiver[chosen], row, self.content)


@dataclass(slots=True)
class MessageTotals:
    """Counters over all cycles. Lost messages count as sent, with their bytes."""

    sent: int = 0
    bytes: int = 0
    lost: int = 0
    delivered: int = 0
    undeliverable: int = 0
    """Messages to agents that were down when the messages arrived."""


class MessageNetwork:
    """The messages under way, and their counters."""

    def __init__(self, terms: MessageTerms | None = None, seed: int = 0) -> None:
        self.terms = terms or MessageTerms()
        self.totals = MessageTotals()
        self._seed = seed
        self._under_way: defaultdict[tuple[int, str], list[MessageBatch]] = defaultdict(list)

    def send(self, batch: MessageBatch, content_bytes: int) -> None:
        """Take messages with this many bytes of content each.

        Each kind has its own random numbers in each cycle. So other messages do not change which
        messages of this kind are lost.
        """
        count, terms = len(batch), self.terms
        self.totals.sent += count
        self.totals.bytes += count * (terms.header_bytes + content_bytes)
        if terms.loss:
            draws = stream_of(self._seed, StreamPurpose.MESSAGE_LOSS, batch.kind, batch.sent)
            batch = batch.of(draws.random(count) >= terms.loss)
            self.totals.lost += count - len(batch)
        if terms.least_delay == terms.most_delay:
            self._put(batch, terms.least_delay)
            return
        draws = stream_of(self._seed, StreamPurpose.MESSAGE_DELAYS, batch.kind, batch.sent)
        delays = draws.integers(terms.least_delay, terms.most_delay + 1, len(batch))
        for delay in range(terms.least_delay, terms.most_delay + 1):
            self._put(batch.of(delays == delay), delay)

    def deliver(self, cycle: int, kind: str, alive: Bools) -> list[MessageBatch]:
        """Return the messages of a kind that arrive in this cycle, for agents that are alive."""
        arrived = []
        for batch in self._under_way.pop((cycle, kind), ()):
            reached = batch.of(alive[batch.receiver])
            self.totals.delivered += len(reached)
            self.totals.undeliverable += len(batch) - len(reached)
            if len(reached):
                arrived.append(reached)
        return arrived

    def under_way(self) -> Iterator[MessageBatch]:
        """Yield the batches that have not arrived yet."""
        for batches in self._under_way.values():
            yield from batches

    def _put(self, batch: MessageBatch, delay: int) -> None:
        if len(batch):
            self._under_way[batch.sent + delay, batch.kind].append(batch)

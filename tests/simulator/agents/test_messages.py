"""Messages arrive once, at their time, as they were sent, or they are counted."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.agents.message_network import MessageBatch, MessageNetwork, MessageTerms
from tests.lengths import EXAMPLES


def batch(kind: str, sent: int, sender: Any, receiver: Any, content: Any) -> MessageBatch:
    """Return messages with a row of contents each."""
    sender, receiver = (np.asarray(rows, dtype=np.int32) for rows in (sender, receiver))
    rows = np.arange(len(sender), dtype=np.int32)
    return MessageBatch(kind, sent, sender, receiver, rows, np.asarray(content))


@settings(max_examples=3 * EXAMPLES)
@given(st.integers(0, 2), st.integers(0, 3), st.sampled_from([0.0, 0.3, 1.0]), st.integers(0, 1000))
def test_each_message_arrives_once_or_is_counted(
    least: int, more: int, loss: float, seed: int
) -> None:
    """Within its delays, with its own content, and only at agents that are alive."""
    network = MessageNetwork(MessageTerms(loss, least, least + more, header_bytes=10), seed)
    draws = np.random.default_rng(seed)
    alive = draws.random(20) < 0.8
    arrived: list[int] = []
    sent_at: dict[int, int] = {}
    to: dict[int, int] = {}
    for cycle in range(12):
        if cycle < 5:
            numbers = np.arange(30) + 100 * cycle
            receiver = draws.integers(0, 20, 30)
            sent_at |= dict.fromkeys(numbers.tolist(), cycle)
            to |= dict(zip(numbers.tolist(), receiver.tolist(), strict=True))
            network.send(batch("a", cycle, numbers % 20, receiver, numbers), content_bytes=4)
        assert not network.deliver(cycle, "b", alive)
        for reached in network.deliver(cycle, "a", alive):
            assert alive[reached.receiver].all()
            numbers = reached.content[reached.row]
            assert (numbers % 20 == reached.sender).all()
            assert [to[number] for number in numbers.tolist()] == reached.receiver.tolist()
            for number in numbers.tolist():
                assert reached.sent == sent_at[number]
                assert least <= cycle - reached.sent <= least + more
            arrived.extend(numbers.tolist())
    assert not list(network.under_way())
    assert len(set(arrived)) == len(arrived)
    totals = network.totals
    assert totals.sent == 150
    assert totals.bytes == 150 * 14
    assert totals.delivered == len(arrived)
    assert totals.sent == totals.lost + totals.delivered + totals.undeliverable


def test_as_many_are_lost_and_delayed_as_said() -> None:
    """Within four standard errors."""
    count = 20_000
    network = MessageNetwork(MessageTerms(loss=0.25, least_delay=1, most_delay=4))
    rows = np.arange(count)
    network.send(batch("a", 0, rows, rows, rows), 0)
    assert network.totals.lost == pytest.approx(count / 4, abs=4 * np.sqrt(count * 3 / 16))
    left = count - network.totals.lost
    alive = np.ones(count, dtype=bool)
    for cycle in range(1, 5):
        (reached,) = network.deliver(cycle, "a", alive)
        assert len(reached) == pytest.approx(left / 4, abs=4 * np.sqrt(left * 3 / 16))


def test_other_messages_do_not_change_which_are_lost() -> None:
    """Each kind has random numbers of its own in each cycle."""

    def reached(other: bool) -> list[list[int]]:
        network = MessageNetwork(MessageTerms(loss=0.5), seed=2)
        rows = np.arange(50)
        seen = []
        for cycle in range(3):
            if other:
                network.send(batch("b", cycle, rows, rows, rows), 0)
            network.send(batch("a", cycle, rows, rows, rows), 0)
            (found,) = network.deliver(cycle, "a", np.ones(50, dtype=bool))
            seen.append(found.sender.tolist())
        return seen

    assert reached(other=False) == reached(other=True)
    assert reached(other=False)[0] != reached(other=False)[1]


def test_wrong_terms_are_refused() -> None:
    """With the value and what is accepted."""
    with pytest.raises(ValueError, match=r"`loss` must be between 0 and 1 \(got 1.5\)"):
        MessageTerms(loss=1.5)
    with pytest.raises(ValueError, match=r"\(got 2 and 1\)"):
        MessageTerms(least_delay=2, most_delay=1)

"""The size of messages: as large as the platform's VMs need, and rejected at once beyond it."""

from dataclasses import replace
from typing import Any

import pytest

from merkatd.bus.peer import MessageRefusedError
from merkatd.protocol.bus_messages import (
    FROM_DAEMON,
    TO_DAEMON,
    VERSION,
    Latest,
    Refused,
    Remember,
    Welcome,
)
from merkatd.protocol.message_limits import longest_memory
from merkatd.protocol.platform_messages import MOST_VMS, PlatformStatus, VmNow
from merkatd.protocol.wire_format import (
    LARGEST_NEWS_BYTES,
    Envelope,
    MalformedError,
    largest_bytes,
    pack,
    unpack,
)
from tests.bus.raw import Raw
from tests.bus.rig import CONTROLLER, ROLES, Site, assignment, market, on_site, soon

SMALL = sum(cluster.most for cluster in assignment().clusters)


def memory(size: int) -> str:
    """Return a memory of `size` bytes as JSON."""
    return "x" * (size - 2)


@pytest.mark.parametrize("vms", [0, 1, SMALL, 1_000, MOST_VMS])
def test_the_longest_memory_fits_into_a_message(vms: int) -> None:
    """For any number of VMs the limit exceeds the memory only by the envelope."""
    longest = Envelope(Remember(memory=memory(longest_memory(vms))), "s" * 64, 2**53 - 1, "i" * 64)
    assert unpack(pack(longest), TO_DAEMON, largest_bytes(vms)) == longest
    with pytest.raises(MalformedError, match=r"must have at most \d+ bytes"):
        unpack(b" " * (largest_bytes(vms) + 1), TO_DAEMON, largest_bytes(vms))
    assert largest_bytes(vms) <= 1.02 * longest_memory(vms)


def test_a_platform_with_few_vms_may_only_send_small_messages() -> None:
    """The limit depends on the platform's own number of VMs."""
    assert largest_bytes(SMALL) < 300_000
    assert largest_bytes(MOST_VMS) < 3_000_000


def test_an_oversized_message_is_not_sent() -> None:
    """The sender gets the size and the limit at once, and continues."""

    async def story(site: Site) -> None:
        peer = await site.join(1, answer_s=30.0)
        size = largest_bytes(SMALL)
        with pytest.raises(MessageRefusedError, match=rf"at most {size} bytes \(got \d+\)"):
            await soon(peer.ask(Remember(memory=memory(size))), 5.0)
        assert not site.notes.memories
        await soon(peer.ask(Remember(memory=memory(longest_memory(SMALL)))), 5.0)
        assert site.notes.memories

    on_site(story)


def test_a_platform_with_many_vms_may_send_larger_messages() -> None:
    """A message that is valid for it is rejected for a small platform."""

    async def story(site: Site) -> None:
        given = assignment(3)
        (terms,) = given.clusters
        site.hub.admit(replace(given, clusters=(replace(terms, most=1_000),)), ROLES)
        peer = await site.join(3)
        await peer.ask(Remember(memory=memory(longest_memory(1_000))))
        raw = Raw(site, site.hub.passport(1, CONTROLLER))
        session = (await raw.greet()).session
        too_large = Envelope(Remember(memory=memory(longest_memory(1_000))), session, 2)
        assert isinstance(await raw.ask(too_large), Refused)
        assert list(site.notes.memories) == [3]

    on_site(story)


def large(session: str) -> bytes:
    """Return a message that is larger than its platform may send."""
    return pack(Envelope(Remember(memory=memory(largest_bytes(SMALL))), session, 7))


def deep(session: str) -> bytes:
    """Return a message that is nested too deep."""
    inner: Any = 1
    for _ in range(50):
        inner = [inner]
    return pack(Envelope(Remember(memory=inner), session, 7))


def many(session: str) -> bytes:
    """Return a message with too many values."""
    return pack(Envelope(Remember(memory=[0] * 100_000), session, 7))


def older(session: str) -> bytes:
    """Return a message of another version."""
    return deep(session).replace(b'"v":%d' % VERSION, b'"v":1')


@pytest.mark.parametrize("written", [large, deep, many, older])
def test_the_answer_to_a_rejected_message_has_its_number(written: Any) -> None:
    """The sender knows at once which of its messages was rejected."""

    async def story(site: Site) -> None:
        raw = Raw(site, site.hub.passport(1, CONTROLLER))
        session = (await raw.greet()).session
        await raw.socket.send(written(session))
        answer = unpack(await soon(raw.socket.recv()), FROM_DAEMON)
        assert isinstance(answer.body, Refused)
        assert (answer.session, answer.number) == (session, 7)

    on_site(story)


def test_a_rejected_memory_is_not_a_lost_daemon() -> None:
    """A controller with a too deeply nested memory gets the reason."""

    async def story(site: Site) -> None:
        peer = await site.join(1, answer_s=30.0)
        inner: Any = 1
        for _ in range(50):
            inner = [inner]
        with pytest.raises(MessageRefusedError, match="deeper than 20 levels"):
            await soon(peer.ask(Remember(memory=inner)), 5.0)

    on_site(story)


def test_the_largest_platform_receives_all_its_news() -> None:
    """News and welcome with the longest memory fit into a message."""
    goods = dict.fromkeys(("cpu", "memory", "network", "disk"), -1 / 3 * 1e-7)
    vm = VmNow(
        vm=2**31,
        cluster="c" * 64,
        state="powered_off",
        bid=goods,
        allocation=goods,
        key="k" * 64,
        leaving=False,
    )
    standing = PlatformStatus(
        platform=1,
        period=1,
        at_s=1.0,
        state="running",
        vms=(vm,) * MOST_VMS,
        balance=1.0,
        budget=1.0,
        replenishment=0.0,
        deadline_s=None,
        performance=None,
        sizes={},
    )
    welcome = Welcome(
        session="s",
        life="l",
        beat_s=10.0,
        assignment=replace(assignment(), memory=memory(longest_memory(MOST_VMS))),
        latest=Latest(market=market(), standing=standing, published=1, priced=1),
    )
    for message in (welcome, standing):
        assert unpack(pack(Envelope(message)), FROM_DAEMON, LARGEST_NEWS_BYTES).body == message

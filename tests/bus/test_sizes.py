"""How large messages may be: as large as the platform's VMs need, and refused at once beyond it."""

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

SMALL = sum(one.most for one in assignment().clusters)


def memory(size: int) -> str:
    """Of so many bytes as JSON."""
    return "x" * (size - 2)


@pytest.mark.parametrize("vms", [0, 1, SMALL, 1_000, MOST_VMS])
def test_what_can_be_remembered_can_be_said(vms: int) -> None:
    """However many VMs the platform has; and no more than its envelope beyond that."""
    longest = Envelope(Remember(memory=memory(longest_memory(vms))), "s" * 64, 2**53 - 1, "i" * 64)
    assert unpack(pack(longest), TO_DAEMON, largest_bytes(vms)) == longest
    with pytest.raises(MalformedError, match=r"must have at most \d+ bytes"):
        unpack(b" " * (largest_bytes(vms) + 1), TO_DAEMON, largest_bytes(vms))
    assert largest_bytes(vms) <= 1.02 * longest_memory(vms)


def test_what_a_message_of_many_vms_needs_costs_few_others_nothing() -> None:
    """A platform of some VMs can say no more than such platforms need."""
    assert largest_bytes(SMALL) < 300_000
    assert largest_bytes(MOST_VMS) < 3_000_000


def test_a_message_that_is_too_large_is_not_sent() -> None:
    """Its sender is told at once, with its size and the limit, and goes on."""

    async def story(site: Site) -> None:
        peer = await site.joined(1, answer_s=30.0)
        size = largest_bytes(SMALL)
        with pytest.raises(MessageRefusedError, match=rf"at most {size} bytes \(got \d+\)"):
            await soon(peer.ask(Remember(memory=memory(size))), 5.0)
        assert not site.notes.memories
        await soon(peer.ask(Remember(memory=memory(longest_memory(SMALL)))), 5.0)
        assert site.notes.memories

    on_site(story)


def test_a_platform_of_many_vms_may_say_more() -> None:
    """What a small one may not."""

    async def story(site: Site) -> None:
        given = assignment(3)
        (terms,) = given.clusters
        site.hub.admit(replace(given, clusters=(replace(terms, most=1_000),)), ROLES)
        peer = await site.joined(3)
        await peer.ask(Remember(memory=memory(longest_memory(1_000))))
        raw = Raw(site, site.hub.passport(1, CONTROLLER))
        session = (await raw.greeted()).session
        too_large = Envelope(Remember(memory=memory(longest_memory(1_000))), session, 2)
        assert isinstance(await raw.ask(too_large), Refused)
        assert list(site.notes.memories) == [3]

    on_site(story)


def large(session: str) -> bytes:
    """A message that is larger than its platform may send."""
    return pack(Envelope(Remember(memory=memory(largest_bytes(SMALL))), session, 7))


def deep(session: str) -> bytes:
    """One whose body can't be taken."""
    inner: Any = 1
    for _ in range(50):
        inner = [inner]
    return pack(Envelope(Remember(memory=inner), session, 7))


def many(session: str) -> bytes:
    """One of more values than are read."""
    return pack(Envelope(Remember(memory=[0] * 100_000), session, 7))


def older(session: str) -> bytes:
    """One of another version."""
    return deep(session).replace(b'"v":%d' % VERSION, b'"v":1')


@pytest.mark.parametrize("written", [large, deep, many, older])
def test_the_answer_to_what_can_not_be_taken_has_its_number(written: Any) -> None:
    """So that its sender knows at once which of its messages was refused."""

    async def story(site: Site) -> None:
        raw = Raw(site, site.hub.passport(1, CONTROLLER))
        session = (await raw.greeted()).session
        await raw.socket.send(written(session))
        answer = unpack(await soon(raw.socket.recv()), FROM_DAEMON)
        assert isinstance(answer.body, Refused)
        assert (answer.session, answer.number) == (session, 7)

    on_site(story)


def test_a_memory_that_can_not_be_taken_is_no_lost_daemon() -> None:
    """A controller that remembers what is nested too deep is told so, and why."""

    async def story(site: Site) -> None:
        peer = await site.joined(1, answer_s=30.0)
        inner: Any = 1
        for _ in range(50):
            inner = [inner]
        with pytest.raises(MessageRefusedError, match="deeper than 20 levels"):
            await soon(peer.ask(Remember(memory=inner)), 5.0)

    on_site(story)


def test_the_largest_platform_hears_all_its_news() -> None:
    """With its longest memory, as its controller is told of them when it begins again."""
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
    for told in (welcome, standing):
        assert unpack(pack(Envelope(told)), FROM_DAEMON, LARGEST_NEWS_BYTES).body == told

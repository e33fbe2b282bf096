"""Pools with tenants' texts that are too long or invalid XML never stop a period."""

from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred
from twisted.internet.task import Clock
from twisted.logger import capturedLogs

from merkatd.base.clock import Inline
from merkatd.opennebula.constraints.access_rules import Rights
from merkatd.opennebula.pools import estate_reader
from merkatd.opennebula.pools.estate_pools import LONGEST_WORD, MOST_WORDS, read_networks
from merkatd.opennebula.pools.estate_reader import EstateReading, SitePools
from merkatd.opennebula.rpc.errors import LongAnswerError, OneForbiddenError
from merkatd.scheduler.base.ports import CloudUnreachableError

GROUP = "<GROUP><ID>1</ID><NAME>users</NAME></GROUP>"
RULE = "<ACL><ID>0</ID><USER>1</USER><RESOURCE>1</RESOURCE><RIGHTS>1</RIGHTS><ZONE>1</ZONE></ACL>"
EMPTY = {
    "datastore_pool": "<DATASTORE_POOL></DATASTORE_POOL>",
    "network_pool": "<VNET_POOL></VNET_POOL>",
    "vm_group_pool": "<VM_GROUP_POOL></VM_GROUP_POOL>",
    "group_pool": f"<GROUP_POOL>{GROUP}</GROUP_POOL>",
    "rules": f"<ACL_POOL>{RULE}</ACL_POOL>",
    "cluster_pool": "<CLUSTER_POOL></CLUSTER_POOL>",
}


def user(number: int, text: str = "") -> str:
    """Return a user with this text in the template."""
    inside = f"<TEMPLATE><A>{text}</A></TEMPLATE>"
    groups = "<GID>1</GID><GROUPS><ID>1</ID></GROUPS>"
    return f"<USER><ID>{number}</ID>{groups}<NAME>u{number}</NAME>{inside}</USER>"


class Aside(Inline):
    """An executor that knows whether it runs something."""

    runs = False

    def run(self, call: Callable[[], Any]) -> Any:
        """Run the call at once."""
        self.runs = True
        try:
            return super().run(call)
        finally:
            self.runs = False


class Noted(str):
    """A text that may be encoded only on its executor."""

    __slots__ = ("executor",)
    executor: Aside

    def encode(self, *arguments: Any) -> bytes:
        """Return the text's bytes."""
        assert self.executor.runs
        return super().encode(*arguments)


class Server:
    """A server that answers with texts or fails."""

    def __init__(self) -> None:
        self.says: dict[str, str | Exception] = {**EMPTY}
        self.asked: list[str] = []
        self.clock = Clock()
        self.executor = Aside()
        self.users(user(1))
        self.pools = SitePools(self._client, self.executor, self.clock)

    def users(self, *users: str) -> None:
        """Set its users."""
        pool = Noted(f"<USER_POOL>{''.join(users)}</USER_POOL>")
        pool.executor = self.executor
        self.says["user_pool"] = pool

    @property
    def _client(self) -> Any:
        return self

    async def zone(self) -> int:
        """Return its zone."""
        return 0

    def __getattr__(self, name: str) -> Callable[[], Any]:
        async def ask() -> str:
            self.asked.append(name)
            answer = self.says[name]
            if isinstance(answer, Exception):
                raise answer
            return answer

        ask.__name__ = name
        return ask

    def read(self) -> EstateReading:
        """Return the present facts; raise what the daemon counts as an outage."""
        results: list[Any] = []
        ensureDeferred(self.pools.read()).addBoth(results.append)
        if hasattr(results[0], "raiseException"):
            results[0].raiseException()
        known: EstateReading = results[0]
        return known


FAULTS: dict[str, str | Exception] = {
    "too long": LongAnswerError("one.userpool.info", "", 1, ""),
    "too slow": CloudUnreachableError("one.userpool.info: no answer within 9 s"),
    "broken off": "<USER_POOL><USER>",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_an_unreadable_pool_keeps_its_last_content(fault: str) -> None:
    """It is read again some minutes later, and periods do not wait for it meanwhile."""
    server = Server()
    assert set(server.read().estate.users) == {1}
    server.says["user_pool"] = FAULTS[fault]
    with capturedLogs() as logged:
        for _ in range(4):
            assert set(server.read().estate.users) == {1}
    # A slow pool may have been slow only once.
    tries = 2 if fault == "too slow" else 1
    assert server.asked.count("user_pool") == 1 + tries
    reasons = [event["why"] for event in logged if event.get("pool") == "user_pool"]
    assert len(reasons) == tries
    assert "keeps its last known content" in reasons[0]
    server.users(user(1), user(2))
    server.clock.advance(301.0)
    assert set(server.read().estate.users) == {1, 2}
    assert set(server.read().estate.users) == {1, 2}
    assert server.asked.count("user_pool") == 3 + tries


def test_a_pool_with_one_lost_answer_is_read_in_the_next_period() -> None:
    """This holds each time."""
    server = Server()
    for number in range(2, 5):
        server.read()
        server.says["user_pool"] = CloudUnreachableError("the connection was lost")
        with capturedLogs():
            server.read()
        server.users(user(1), user(number))
        assert set(server.read().estate.users) == {1, number}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_pool_that_was_never_read_gives_no_rights(fault: str) -> None:
    """This happens after a restart, and the other pools count."""
    server = Server()
    server.says["user_pool"] = FAULTS[fault]
    with capturedLogs():
        estate = server.read().estate
    assert (dict(estate.users), dict(estate.group_names)) == ({}, {1: "users"})
    assert Rights(estate).judged
    server.says["user_pool"] = OneForbiddenError("one.userpool.info", "", "not for you", 512)
    server.clock.advance(301.0)
    with capturedLogs():
        assert not Rights(server.read().estate).judged


def test_an_unreachable_server_delays_no_pool() -> None:
    """All pools fail, and all are read again at once afterwards."""
    server = Server()
    server.read()
    before = dict(server.says)
    server.says = dict.fromkeys(before, CloudUnreachableError("away"))
    with pytest.raises(CloudUnreachableError):
        server.read()
    server.says = before
    server.users(user(1), user(2))
    assert set(server.read().estate.users) == {1, 2}


def test_a_long_pool_is_read_rarely_and_its_longest_object_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The log names the object with the long text."""
    monkeypatch.setattr(estate_reader, "LONG", 4_000_000)
    server = Server()
    server.users(user(1), user(7, "x" * 5_000_000), user(8, "x"))
    with capturedLogs() as logged:
        for _ in range(3):
            assert set(server.read().estate.users) == {1, 7, 8}
    assert server.asked.count("user_pool") == 1
    (why,) = [event["why"] for event in logged if event.get("pool") == "user_pool"]
    assert why == "takes 4 MiB, most of it USER 7 with 4.8 MiB"


def test_long_attributes_of_networks_are_left_out() -> None:
    """Requirements are compared with each of them, and a network may have megabytes of text."""
    many = "".join(f"<A{number}>{'a' * 100}</A{number}>" for number in range(1_000))
    (network,) = read_networks(
        "<VNET_POOL><VNET><ID>3</ID><UID>2</UID><GID>1</GID><NAME>n</NAME><TEMPLATE>"
        f"<COLOUR>red</COLOUR><LONG>{'a' * 1_000_000}</LONG><KEPT>{'a' * LONGEST_WORD}</KEPT>"
        f"<COLOUR>blue</COLOUR>{many}{'<B/>' * 10_000}</TEMPLATE></VNET></VNET_POOL>"
    )
    assert network.values["COLOUR"] == ["red", "blue"]
    assert len(network.values["KEPT"][0]) == LONGEST_WORD
    assert "LONG" not in network.values
    texts = [text for texts in network.values.values() for text in texts]
    assert sum(map(len, texts)) <= MOST_WORDS
    assert len(texts) <= MOST_WORDS / 16

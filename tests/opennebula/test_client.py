"""Calls in each server's form, repeated only if that is safe, and without revealing secrets."""

from __future__ import annotations

import traceback
from dataclasses import replace
from typing import Any

import pytest
from twisted.internet.task import Clock
from twisted.logger import globalLogPublisher

from merkatd.opennebula import Client
from merkatd.opennebula.rpc.errors import OneAuthenticationError, OneForbiddenError
from merkatd.opennebula.rpc.server_dialect import dialect_of
from merkatd.scheduler.base.ports import CloudUnreachableError
from tests.opennebula.worlds import ADMIN, SMALL, VirtualTime, World, in_memory

SIGNATURES = {
    "4.12.1": ("one.vmpool.info", False, 4, 4, False),
    "4.14.0": ("one.vmpool.info", False, 4, 5, False),
    "5.4.0": ("one.vmpool.info", True, 4, 5, False),
    "5.8.0": ("one.vmpool.info", True, 5, 6, False),
    "5.10.0": ("one.vmpool.infoextended", True, 5, 6, False),
    "6.6.3": ("one.vmpool.infoextended", True, 5, 6, False),
    "6.8.0": ("one.vmpool.infoextended", True, 5, 6, True),
    "6.10.0.1": ("one.vmpool.infoextended", True, 5, 6, True),
    "7.4.0": ("one.vmpool.infoextended", True, 5, 6, True),
    "a fork of our own": ("one.vmpool.infoextended", True, 5, 6, True),
}


@pytest.mark.parametrize(("version", "meant"), SIGNATURES.items())
def test_each_version_has_its_dialect(version: str, meant: tuple[object, ...]) -> None:
    """An unknown version is treated as a new one."""
    dialect = dialect_of(version)
    assert meant == (
        dialect.vm_pool,
        dialect.vm_groups,
        dialect.deploy_arguments,
        dialect.migrate_arguments,
        dialect.runs_scheduled_actions,
    )


def _claims(world: World, version: str) -> None:
    settings = replace(world.embedded.world.settings, version=version)
    world.embedded.world.settings = settings


def test_the_version_is_read_once_and_again_after_a_lost_connection() -> None:
    """A server that returns may be a newer one."""
    world = in_memory()
    for _ in range(3):
        world.run(world.client.dialect())
    assert world.transport.count()["one.system.version"] == 1
    _claims(world, "5.6.0")
    world.fault("lose", "one.vm.allocate", count=1)
    with pytest.raises(CloudUnreachableError):
        world.new()
    assert world.run(world.client.dialect()).version == (5, 6)


def test_an_older_server_is_observed_and_controlled() -> None:
    """Its pool is short, so each VM is read, and calls have fewer arguments."""
    world = in_memory()
    _claims(world, "5.6.0")
    template = f"{SMALL}MERKAT_BID_CPU=3\n"
    vm = world.running(1, template)
    seen = world.observe()
    assert seen.attributes == {vm: {"MERKAT_BID_CPU": "3"}}
    calls = dict(world.transport.calls)
    assert calls["one.vm.deploy"] == (vm, 1, False, -1)
    world.run(world.client.migrate(vm, 2))
    assert dict(world.transport.calls)["one.vm.migrate"] == (vm, 2, True, False, -1)
    assert world.transport.count()["one.vmpool.infoextended"] == 0


class Failing:
    """A transport that fails a number of times and records the times of calls."""

    def __init__(self, clock: Clock, times: int, error: Exception | None = None) -> None:
        self._clock = clock
        self._left = times
        self._error = error or ConnectionError("lost")
        self.at_s: list[float] = []

    async def call(self, _method: str, *_arguments: Any) -> list[Any]:
        """Return an answer after the failures."""
        self.at_s.append(self._clock.seconds())
        self._left -= 1
        if self._left >= 0:
            raise self._error
        return [True, "<A/>", 0]


def _client(transport: Failing, clock: Clock, **options: Any) -> Client:
    return Client(transport, ADMIN, clock, **{"jitter": lambda: 1.0, **options})


def test_pauses_double_and_are_spread() -> None:
    """Clients that lost their server together do not return together."""
    for chance, pauses in ((1.0, [0.25, 0.5, 1.0]), (0.0, [0.125, 0.25, 0.5])):
        clock = Clock()
        transport = Failing(clock, 3)
        client = _client(transport, clock, attempts=4, jitter=lambda chance=chance: chance)
        assert VirtualTime(clock).run(client.host_pool()) == "<A/>"
        waited = [
            late - soon for soon, late in zip(transport.at_s, transport.at_s[1:], strict=False)
        ]
        assert waited == [pytest.approx(pause, abs=0.25) for pause in pauses]


def test_attempts_and_time_are_limited() -> None:
    """A call ends after its attempts, or before a pause beyond its time."""
    clock = Clock()
    transport = Failing(clock, 99)
    with pytest.raises(CloudUnreachableError, match="lost"):
        VirtualTime(clock).run(_client(transport, clock, attempts=3).host_pool())
    assert len(transport.at_s) == 3
    transport = Failing(clock, 99)
    with pytest.raises(CloudUnreachableError, match="lost"):
        VirtualTime(clock).run(_client(transport, clock, attempts=99, timeout_s=2.0).host_pool())
    assert transport.at_s[-1] - transport.at_s[0] <= 2.0


@pytest.mark.parametrize("method", ["one.vm.allocate", "one.vm.migrate", "one.vm.action"])
def test_only_calls_without_side_effects_are_repeated(method: str) -> None:
    """A lost answer to any other call may stand for a change."""
    clock = Clock()
    transport = Failing(clock, 1)
    client = _client(transport, clock)
    with pytest.raises(CloudUnreachableError):
        VirtualTime(clock).run(client.call(method, 1))
    assert len(transport.at_s) == 1
    again = Failing(clock, 1)
    VirtualTime(clock).run(_client(again, clock).append(1, "A=1"))
    assert len(again.at_s) == 2


def test_an_error_names_the_remedy(world: World) -> None:
    """It has the file of a wrong login, or the missing right."""
    client = world.login("oneadmin:wrong", origin="/etc/merkat/one_auth")
    with pytest.raises(
        OneAuthenticationError,
        match=r"not accept the login of 'oneadmin' from /etc/merkat/one_auth",
    ):
        world.run(client.host_pool())
    world.call("one.user.allocate", "ann", "pw")
    vm = world.new()
    with pytest.raises(OneForbiddenError, match=r"'ann' needs a rule for this call \(oneacl\)"):
        world.run(world.login("ann:pw").deploy(vm, 0))


def test_passwords_are_never_revealed(world: World) -> None:
    """Errors with their causes and logs do not contain them."""
    secret = "hunter2-and-more"  # noqa: S105 - only for this test
    events: list[str] = []
    observer: Any = lambda event: events.append(repr(event))  # noqa: E731 - removed again below
    globalLogPublisher.addObserver(observer)
    client = world.login(f"oneadmin:{secret}", timeout_s=0.2, attempts=1)
    texts = [repr(client)]
    for kind in ("lose", "garbage", "hang", "refuse", "none"):
        if kind != "none":
            world.fault(kind, "one.*", count=1)
        for call in (client.host_pool(), client.append(1, "\x01")):
            with pytest.raises(Exception) as raised:  # noqa: PT011 - whatever it is
                world.run(call)
            texts += traceback.format_exception(raised.value)
        world.clear_faults()
    globalLogPublisher.removeObserver(observer)
    assert len(texts) > 10
    assert not [text for text in (*texts, *events) if secret in text]

"""A daemon switches hosts of a cloud by programs of its own, and is killed on the way."""

import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from lxml import etree

from merkatd import cli
from merkatd.cluster import Decision, Plan, Sleep, Snapshot, Step, Wake
from merkatd.placement.registry import DEFAULT, STRATEGIES
from tests.daemon.harness import ADMIN, Site
from tests.daemon.processes import Program, until

HOST, NAME = 3, "host003"
MONITORED, OFFLINE = "2", "8"

_PROGRAM = f"""
import sys, xmlrpc.client
endpoint, verb, host = sys.argv[1:]
server = xmlrpc.client.ServerProxy(endpoint)
done, said = getattr(server, "embedded.host." + verb)({ADMIN!r}, int(host))[:2]
print(said)
sys.exit(not done)
"""


def by_file(words: Sequence[str]) -> int:
    """Run a daemon whose strategy does with a host as a file says that a test writes."""
    want, plain = Path(words[-1]).with_name("want"), STRATEGIES[DEFAULT]

    def decide(
        snapshot: Snapshot, settings: Any, memory: Mapping[str, Any], random: np.random.Generator
    ) -> Decision:
        decision = plain.strategy(snapshot, settings, memory, random)
        kinds: Mapping[str, type[Sleep | Wake]] = {"sleep": Sleep, "wake": Wake}
        kind = kinds.get(want.read_text())
        steps: list[Step] = [*decision.plan]
        if kind is not None:
            steps.append(kind(period=snapshot.period, host=HOST, reason="the file says so"))
        return replace(decision, plan=Plan.ordered(steps))

    cast("dict[str, Any]", STRATEGIES)[DEFAULT] = replace(plain, strategy=decide)
    return cli.main(words)


class PoweredSite(Site):
    """A site whose daemon switches one host."""

    def another_daemon(self) -> Program:
        """Start a daemon with the strategy and the programs."""
        config = self.directory / "merkatd.toml"
        if "[power]" not in config.read_text():
            program = self.directory / "switch.py"
            program.write_text(_PROGRAM)
            command = f"{sys.executable} -S {program} http://{self._address}/RPC2"
            with config.open("a") as file:
                file.write(
                    f'[power]\nhosts = ["{NAME}"]\nsleep = "{command} sleep {{id}}"\n'
                    f'wake = "{command} wake {{id}}"\n'
                )
            text = config.read_text()
            config.write_text(text.replace("[period]\n", '[period]\nshutdown = "0s"\n'))
        words = ("run", "--config", str(config))
        return Program(self.directory / "daemon.log", *words, main=by_file)

    def want(self, what: str) -> None:
        """Let the strategy want this."""
        (self.directory / "want").write_text(what)

    def host(self) -> tuple[str, str, bool]:
        """Return the host's state in OpenNebula, its power, and whether it has the attribute."""
        seen: list[tuple[str, str, bool]] = []

        def look() -> bool:
            """Return whether the cloud answers in time; on a full machine it may not."""
            with contextlib.suppress(TimeoutError):
                seen.append(self._host())
            return bool(seen)

        until(look, "the cloud answers")
        return seen[0]

    def _host(self) -> tuple[str, str, bool]:
        host = etree.fromstring(self.call("one.host.info", HOST))
        power = self.call("embedded.host.power", [HOST])[str(HOST)]["state"]
        return host.findtext("STATE", ""), power, bool(host.findtext("TEMPLATE/MERKAT_ASLEEP"))

    def until_host(self, *wanted: object) -> None:
        """Wait until the host is so, and the daemon runs."""

        def so() -> bool:
            assert self.daemon is not None
            assert self.daemon.running, self.daemon.output()
            return self.host() == wanted

        until(so, f"host {wanted}")


@pytest.fixture
def powered(tmp_path: Path) -> Iterator[PoweredSite]:
    """Start a cloud and a daemon; kill both afterwards."""
    made = PoweredSite(tmp_path, 1)
    made.want("")
    try:
        made.start_cloud()
        made.start_daemon()
        yield made
    finally:
        made.close()


def test_a_host_sleeps_and_is_woken_by_the_next_daemon(powered: PoweredSite) -> None:
    """The first daemon is killed while the host sleeps, the second while it starts."""
    powered.want("sleep")
    powered.until_host(OFFLINE, "asleep", True)
    powered.kill_daemon()
    powered.want("wake")
    powered.start_daemon()
    until(lambda: powered.host()[1] == "starting", "the host starts")
    powered.kill_daemon()
    powered.start_daemon()
    powered.until_host(MONITORED, "on", False)
    powered.after_good_periods(3)
    assert powered.host() == (MONITORED, "on", False)


def test_a_daemon_that_is_killed_before_the_program_loses_no_host(powered: PoweredSite) -> None:
    """The host is offline, and runs if the kill was in time; the next daemon wakes it."""
    powered.want("sleep")
    until(lambda: powered.host()[0] == OFFLINE, "the host is offline")
    powered.kill_daemon()
    assert powered.host()[::2] == (OFFLINE, True)
    powered.want("wake")
    powered.start_daemon()
    powered.until_host(MONITORED, "on", False)

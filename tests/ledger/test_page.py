"""The examples in docs/money.md run unchanged in virtual time and give the shown output."""

import re
import xmlrpc.client
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred

from merkatd.config.loader import load
from merkatd.database.ledger.entry_store import audit
from merkatd.embedded.model.settings import HostSize
from merkatd.ledger import Month, statement, tenants
from tests.commands.asking import Daemon, Shell
from tests.scheduler import frontend
from tests.scheduler.frontend import PASSWORD, Frontend
from tests.served import questions_at

PAGE = (Path(__file__).parents[2] / "docs/money.md").read_text()
MAY = datetime(2026, 5, 1, tzinfo=UTC).timestamp()
DAY_S = 86_400.0


def blocks(kind: str) -> list[str]:
    """Return all blocks of one kind in the page."""
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


class Cloud:
    """A stand-in for ServerProxy: attributes collect the name of a method."""

    def __init__(self, made: Frontend, method: str = "") -> None:
        self._made = made
        self._method = method

    def __getattr__(self, name: str) -> "Cloud":
        return Cloud(self._made, f"{self._method}.{name}".lstrip("."))

    def __call__(self, session: str, *arguments: Any) -> Any:
        """Return the value of a call that must succeed."""
        return self._made.bench.ok(self._method, *arguments, session=session)


class Site(Daemon):
    """A daemon configured as on the page, on the first of May."""

    def __init__(self, place: Path) -> None:
        (place / "money.toml").write_text(blocks("toml")[0])
        self.config = load(place / "money.toml")
        cloud = self.config.cloud
        size = HostSize(cloud.host_cores * 100, cloud.host_memory_mib)
        self.frontend = Frontend(
            cloud.hosts, size, money=self.config.money, rhythm=self.config.period
        )
        self.frontend.measure_hourly()
        self.questions = questions_at(self.frontend.scheduler)
        (place / "money").mkdir()
        (place / "money/one_auth").write_text(f"oneadmin:{PASSWORD}\n")
        (place / "money/one_xmlrpc").write_text("http://127.0.0.1/RPC2\n")

    def pass_days(self, days: float) -> None:
        """Run the periods of some days."""
        interval_s = self.config.period.interval_s
        clock = self.frontend.clock
        for _ in range(round(days * DAY_S / interval_s)):
            next_s = clock.seconds() + interval_s
            self.frontend.scheduler.latest = self.frontend.result(
                ensureDeferred(self.frontend.scheduler.period())
            )
            clock.advance(next_s - clock.seconds())


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """Yield the cloud and the daemon; commands and scripts on the page use them."""
    monkeypatch.setattr(frontend, "START_S", MAY)
    monkeypatch.chdir(tmp_path)
    made = Site(tmp_path)
    monkeypatch.setattr("merkatd.commands.socket_door.ask", made.ask)
    monkeypatch.setattr(xmlrpc.client, "ServerProxy", lambda _address: Cloud(made.frontend))
    monkeypatch.setenv("TZ", "UTC")
    yield made
    made.frontend.close()


def parts(block: str) -> list[tuple[str, str]]:
    """Return the typed lines, each with its output."""
    lines: list[tuple[str, str]] = []
    for line in block.splitlines():
        if line.startswith(("$ ", "# ")):
            lines.append((line, ""))
        else:
            lines[-1] = (lines[-1][0], f"{lines[-1][1]}{line}\n")
    return lines


def test_the_page_shows_the_real_output(
    site: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each command in order prints the shown lines, and all credits are explained at the end."""
    monkeypatch.delenv("COLUMNS", raising=False)
    shell = Shell(capsys)
    exec(blocks("python")[0], {})  # noqa: S102 - the page's own script
    site.pass_days(0.5)
    for block in blocks("console"):
        for typed, shown in parts(block):
            days = re.match(r"# (\d+) days later", typed)
            if days is not None:
                site.pass_days(float(days[1]))
                continue
            result = shell.ok(typed.removeprefix("$ merkatd "))
            assert result.out == shown, typed
    reconcile(site)


def reconcile(site: Site) -> None:
    """Check that the statements explain all holdings, to the micro-credit."""
    read = site.frontend.read
    may = Month(2026, 5)
    for row in read(tenants):
        stated = read(lambda c, owner=row.owner: statement(c, owner, may))
        assert (stated.opening, stated.difference) == (0, 0)
        later = read(lambda c, owner=row.owner: statement(c, owner, may.next))
        assert later.opening == stated.closing
        assert later.closing == row.holdings
        assert replace(later, lines=stated.lines).charged == stated.charged > 0
    assert read(audit).sound

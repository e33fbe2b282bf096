"""One platform that the daemon fails to manage: others continue, and its tenant gets the reason."""

from collections.abc import Mapping
from typing import Any

import pytest
from twisted.logger import capturedLogs, formatEvent

from merkatd.api.values.plain_values import members
from merkatd.commands.terminal.platform_text import platform_lines
from merkatd.platforms import announcements, tenant_orders
from merkatd.platforms.lifecycle import funds, period_review
from merkatd.platforms.platform_views import PlatformDetails
from merkatd.protocol.platform_messages import Assignment, SetSize
from merkatd.scheduler.base.troubles import TroubleKind
from merkatd.service.base.callers import LOCAL
from tests.lengths import SOAK
from tests.platforms.site import Site, platforms_at

WHY = "ZeroDivisionError: nothing to divide by"


class Failing:
    """Makes functions fail for one platform."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.platform = -1

    def at(self, module: Any, name: str) -> None:
        """Let a function of a module fail when it gets the platform."""
        real = getattr(module, name)

        def call(*arguments: Any, **named: Any) -> Any:
            if any(getattr(argument, "id", None) == self.platform for argument in arguments):
                raise ZeroDivisionError("nothing to divide by")
            return real(*arguments, **named)

        self._monkeypatch.setattr(module, name, call)

    def restore(self) -> None:
        """Let all functions work again."""
        self.platform = -1


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Failing:
    """Return such a switch, with nothing failing yet."""
    return Failing(monkeypatch)


def row_of(site: Site, platform: int) -> PlatformDetails:
    """Return the answer of `platform show`."""
    row: PlatformDetails = site.wait(platforms_at(site).platform(LOCAL, platform))
    return row


def troubles(site: Site) -> Mapping[int, str]:
    """Return by platform why it is not managed."""
    return site.scheduler.world.troubles.of(TroubleKind.PLATFORM)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (period_review, "_start_request"),
        (period_review, "record_transition"),
        *[
            (period_review, "terms_of"),
            (period_review, "without_refused"),
            (period_review, "bids_by_cluster"),
        ]
        * SOAK,
    ],
)
def test_a_failing_platform_stays_unchanged_and_the_period_continues(
    site: Site, failing: Failing, module: Any, name: str
) -> None:
    """The other platforms start, and it starts too once the fault is gone."""
    before, broken, after = (site.submit() for _ in range(3))
    failing.platform = broken
    failing.at(module, name)
    site.periods(5)
    assert [site.platform(platform).state for platform in (before, after)] == ["running", "running"]
    assert site.platform(broken).state in {"submitted", "postponed"}
    assert "starting" not in {row.what for row in site.doings(broken)}
    assert site.members(broken) == ()
    assert troubles(site) == {broken: WHY}
    failing.restore()
    site.until(broken, "running")
    assert troubles(site) == {}


def test_a_failure_in_reading_all_texts_does_not_stop_the_period(
    site: Site, failing: Failing
) -> None:
    """A starting daemon reads the texts of all living platforms before its first period."""
    broken, other = site.submit(), site.submit()
    failing.platform = broken
    failing.at(funds, "usable_by_all")
    site.start_daemon()
    site.until(other, "running")
    assert troubles(site) == {broken: WHY}


def test_its_tenant_gets_the_reason_and_the_log_has_one_traceback(
    site: Site, failing: Failing
) -> None:
    """The reason is in the row and in the command's text, and one log line has the traceback."""
    broken, other = site.submit(), site.submit()
    failing.platform = broken
    failing.at(period_review, "bids_by_cluster")
    with capturedLogs() as logged:
        site.periods(4)
    (event,) = [log_event for log_event in logged if log_event.get("log_failure") is not None]
    assert formatEvent(event) == f"Platform {broken} could not be reviewed; others go on"
    assert "bids_by_cluster" in event["log_failure"].getTraceback()
    row = row_of(site, broken)
    assert row.unattended == WHY
    said = " ".join(platform_lines(members(row), None))
    assert f"The daemon fails to manage it: {WHY}. Its VMs and their bids stay" in said
    assert row_of(site, other).unattended is None


def test_a_failing_platform_can_be_stopped(site: Site, failing: Failing) -> None:
    """Stopping needs none of the failing parts: its VMs end, and its budget returns."""
    before = site.balances()[site.ann]
    platform = site.submit(budget="[budget]\ncredits = 300")
    site.until(platform, "running")
    failing.platform = platform
    failing.at(period_review, "_start_request")
    failing.at(period_review, "bids_by_cluster")
    site.periods(2)
    assert troubles(site) == {platform: WHY}
    site.wait(site.manager.stop(platform, "ann"))
    site.until(platform, "cancelled")
    assert site.alive() == []
    assert troubles(site) == {}
    assert site.balances()[site.ann] > before - 300_000_000


def test_unshowable_parts_of_a_platform_are_left_out(site: Site, failing: Failing) -> None:
    """Its tenant sees the rest and the reason, because it may have to be stopped."""
    platform = site.submit()
    site.until(platform, "running")
    failing.platform = platform
    failing.at(tenant_orders, "market_of")
    failing.at(tenant_orders, "terms_of")
    row = row_of(site, platform)
    assert (row.state, row.unattended, len(row.vms)) == ("running", WHY, 2)
    assert platform_lines(members(row), None)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (announcements, "_standing"),
        (announcements, "_assignment"),
        (announcements, "_needs_processes"),
    ],
)
def test_other_controllers_get_their_news(
    site: Site, failing: Failing, module: Any, name: str
) -> None:
    """The failing platform keeps its processes, and gets no news meanwhile."""
    broken, other = site.submit(), site.submit()
    site.until(other, "running")
    assert {*site.notes.running} == {broken, other}
    failing.platform = broken
    failing.at(module, name)
    site.notes.news.clear()
    site.periods(2)
    third = site.submit()
    site.periods(2)
    assert {*site.notes.running} == {broken, other, third}
    assert site.notes.stopped == []
    heard = [message.platform for message in site.notes.news]
    assert heard.count(other) == 4
    assert troubles(site) == {broken: WHY}
    assert broken not in heard


def test_a_controller_that_cannot_start_does_not_stop_others(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its start is retried after each period."""
    real, fails = site.notes.start, [True]

    async def start(assignment: Assignment) -> None:
        if assignment.platform == broken and fails[0]:
            raise ZeroDivisionError("nothing to divide by")
        await real(assignment)

    monkeypatch.setattr(site.notes, "start", start)
    broken, other = site.submit(), site.submit()
    site.periods(3)
    assert {*site.notes.running} == {other}
    assert site.act(other, SetSize(cluster="nodes", count=3)).accepted
    assert troubles(site) == {broken: WHY}
    fails[0] = False
    site.periods(1)
    assert {*site.notes.running} == {broken, other}
    assert troubles(site) == {}

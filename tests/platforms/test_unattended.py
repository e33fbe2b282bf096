"""One platform that the daemon fails to look after: others go on, and its tenant reads why."""

from collections.abc import Mapping
from typing import Any

import pytest
from twisted.logger import capturedLogs, formatEvent

from merkatd.api.values.plain_values import members
from merkatd.commands.platform_command import lines_of
from merkatd.platforms import announcements, tenant_orders
from merkatd.platforms.lifecycle import claims, funds, period_review
from merkatd.platforms.platform_views import PlatformDetails
from merkatd.protocol.platform_messages import Assignment, SetSize
from merkatd.scheduler.base.troubles import TroubleKind
from merkatd.service.base.callers import LOCAL
from tests.platforms.site import Site, platforms_at

WHY = "ZeroDivisionError: nothing to divide by"


class Failing:
    """Makes functions fail for one platform."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.platform = -1

    def at(self, module: Any, name: str) -> None:
        """Have a function of a module fail from now on, wherever it is given the platform."""
        real = getattr(module, name)

        def call(*arguments: Any, **named: Any) -> Any:
            if any(getattr(one, "id", None) == self.platform for one in arguments):
                raise ZeroDivisionError("nothing to divide by")
            return real(*arguments, **named)

        self._monkeypatch.setattr(module, name, call)

    def no_more(self) -> None:
        """Have nothing fail any more."""
        self.platform = -1


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Failing:
    """Nothing fails yet."""
    return Failing(monkeypatch)


def row_of(site: Site, platform: int) -> PlatformDetails:
    """What `platform show` answers."""
    row: PlatformDetails = site.wait(platforms_at(site).platform(LOCAL, platform))
    return row


def troubles(site: Site) -> Mapping[int, str]:
    """By platform, why it is not looked after."""
    return site.scheduler.world.troubles.of(TroubleKind.PLATFORM)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (period_review, "_start_request"),
        (period_review, "terms_of"),
        (period_review, "record_transition"),
        (period_review, "claimed_at_start"),
        (period_review, "without_refused"),
        (period_review, "bids_by_cluster"),
    ],
)
def test_one_that_fails_stays_as_it_was_and_the_period_goes_on(
    site: Site, failing: Failing, module: Any, name: str
) -> None:
    """The platforms before and after it start; once nothing is wrong, it starts too."""
    before, broken, after = (site.submit() for _ in range(3))
    failing.platform = broken
    failing.at(module, name)
    site.periods(5)
    assert [site.platform(one).state for one in (before, after)] == ["running", "running"]
    assert site.platform(broken).state in {"submitted", "postponed"}
    assert "starting" not in {one.what for one in site.doings(broken)}
    assert site.members(broken) == ()
    assert troubles(site) == {broken: WHY}
    failing.no_more()
    site.until(broken, "running")
    assert troubles(site) == {}


def test_one_that_fails_as_the_daemon_reads_all_texts_keeps_no_period_from_its_end(
    site: Site, failing: Failing
) -> None:
    """A daemon that is started reads the texts of all living platforms before its first period."""
    broken, other = site.submit(), site.submit()
    failing.platform = broken
    failing.at(funds, "usable_by_all")
    site.start_daemon()
    site.until(other, "running")
    assert troubles(site) == {broken: WHY}


def test_its_tenant_reads_why_and_the_log_has_the_traceback_once(
    site: Site, failing: Failing
) -> None:
    """In the row, in the command's words, and in one line of the log however long it lasts."""
    broken, other = site.submit(), site.submit()
    failing.platform = broken
    failing.at(period_review, "bids_by_cluster")
    with capturedLogs() as logged:
        site.periods(4)
    (event,) = [one for one in logged if one.get("log_failure") is not None]
    assert formatEvent(event) == f"Platform {broken} could not be reviewed; others go on"
    assert "bids_by_cluster" in event["log_failure"].getTraceback()
    row = row_of(site, broken)
    assert row.unattended == WHY
    said = " ".join(lines_of(members(row), None))
    assert f"The daemon fails to manage it: {WHY}. Its VMs and their bids stay" in said
    assert row_of(site, other).unattended is None


def test_one_that_fails_can_be_ended(site: Site, failing: Failing) -> None:
    """An order to stop needs nothing of what it asks for: its VMs go, its budget comes back."""
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


def test_what_cannot_be_shown_of_one_is_left_out(site: Site, failing: Failing) -> None:
    """Its tenant reads the rest, and why: it may have to be stopped."""
    platform = site.submit()
    site.until(platform, "running")
    failing.platform = platform
    failing.at(tenant_orders, "market_of")
    failing.at(tenant_orders, "terms_of")
    row = row_of(site, platform)
    assert (row.state, row.unattended, len(row.vms)) == ("running", WHY, 2)
    assert lines_of(members(row), None)


@pytest.mark.parametrize(
    ("module", "name"),
    [(announcements, "_standing"), (announcements, "_assignment"), (claims, "claim_of")],
)
def test_the_controllers_of_others_hear_the_news(
    site: Site, failing: Failing, module: Any, name: str
) -> None:
    """The one that fails keeps its processes, and hears nothing while it fails."""
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
    heard = [one.platform for one in site.notes.news]
    assert heard.count(other) == 4
    assert troubles(site) == {broken: WHY}
    if module is announcements:
        assert broken not in heard


def test_a_controller_that_cannot_be_started_keeps_no_other_from_its_start(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried again after each period."""
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

"""An application of several clusters, each with its own monitor: the slowest one counts."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from controllers.applications.deadline_controllers import FullDeadline
from merkatd.protocol.bus_messages import Measured, Remember, Stored
from merkatd.protocol.platform_messages import (
    ActionOutcome,
    GiveUp,
    MonitorTerms,
    ProgressReport,
    VmNow,
    WorkDone,
)
from tests.bus.rig import assignment, news
from tests.controllers.applications.live import VM, Live

STEPS = 40
FULL = {"cpu": 100.0, "memory": 512.0}
SLOW, FAST, QUIET = "solver", "viewer", "store"
VMS = {SLOW: 101, FAST: 102, QUIET: 103}


class Platform:
    """One VM in each cluster, all with a monitor; the daemon accepts every request."""

    def __init__(self, *clusters: str, **memory: Any) -> None:
        plain = assignment(controller="deadline")
        (terms,) = plain.clusters
        self._clusters = clusters
        self._given = replace(
            plain,
            clusters=tuple(
                replace(terms, name=name, monitor=MonitorTerms(kind="steps")) for name in clusters
            ),
            parameters={"steps": STEPS},
            deadline_s=1_000_000.0,
            memory=memory or None,
        )
        self.asked: list[Any] = []
        self.period = 0
        self.away = ""
        """The cluster whose VM is off."""
        self.restart()

    def restart(self) -> None:
        """Restart the controller's process with the stored memory."""
        self._controller = FullDeadline(self._given, self)

    async def ask(self, body: Any, action_id: str = "") -> Any:
        """Answer as the daemon does."""
        assert not action_id
        if isinstance(body, Remember):
            memory = json.loads(json.dumps(body.memory))
            self._given = replace(self._given, memory=memory)
            return Stored()
        self.asked.append(body)
        return ActionOutcome(accepted=True)

    def pass_a_period(self, **seen: dict[str, float]) -> None:
        """Report the monitors' values in this order, then the news."""
        self.period += 1
        vms = tuple(
            VmNow(
                vm=VMS[name],
                cluster=name,
                state="powered_off" if name == self.away else "running",
                bid=FULL,
                allocation=FULL,
            )
            for name in self._clusters
        )
        latest = news(
            period=self.period,
            deadline_s=self._given.deadline_s,
            vms=vms,
            sizes=dict.fromkeys(self._clusters, 1),
            balance=1e6,
        )
        self.measure(latest.at_s, seen)
        asyncio.run(self._controller.take(latest))

    def measure(self, at_s: float, seen: Mapping[str, dict[str, float]]) -> None:
        """Report the monitors' values in this order."""
        for cluster, values in seen.items():
            measured = Measured(cluster=cluster, at_s=at_s, values=values)
            asyncio.run(self._controller.take(measured))

    def requests(self, kind: type) -> list[Any]:
        """Return the controller's requests of one kind."""
        return [message for message in self.asked if isinstance(message, kind)]


def done(count: float, **more: float) -> dict[str, float]:
    """Return a monitor's values."""
    return {"done": count, **more}


@pytest.fixture(params=[(SLOW, FAST), (FAST, SLOW)])
def order(request: pytest.FixtureRequest) -> tuple[str, str]:
    """Return the order of the clusters in the template and of their monitors."""
    clusters: tuple[str, str] = request.param
    return clusters


@pytest.fixture
def site() -> Iterator[Live]:
    """Return a site with two hosts of four cores."""
    live = Live(hosts=2)
    yield live
    live.close()


def test_a_platform_is_done_when_its_slowest_cluster_is(site: Live) -> None:
    """One cluster's iterations take eight times as long as the other's."""
    work = {SLOW: 1_200, FAST: 150}
    platform = site.submit(
        controller=f'[controller]\nkind = "deadline"\nparameters = {{ steps = {STEPS} }}',
        budget="[budget]\ncredits = 5000",
        slo='[slo]\ndeadline = "2h"\n',
        cluster="".join(
            f'[[cluster]]\nname = "{name}"\nleast = 1\ninitial = 1\n'
            f'template = """\n{VM.format(work=work[name], steps=STEPS)}"""\n'
            for name in (FAST, SLOW)
        ),
    )
    site.until(platform, "running")
    (slow,) = [member.vm for member in site.members(platform) if member.cluster == SLOW]
    assert slow is not None
    made = 0
    for _ in range(100):
        if site.requests(platform, WorkDone):
            break
        guest = site.guest(slow)
        assert guest is not None
        made = int(guest.log[-1][1]) if guest.log else 0
        site.periods(1)
    assert made >= STEPS - 2
    assert all(
        message.done is None or message.done < 1.0
        for message in site.requests(platform, ProgressReport)
    )


def test_the_remaining_work_is_that_of_the_slowest_cluster(order: tuple[str, str]) -> None:
    """Its iteration takes two minutes, and the other makes four in a minute."""
    platform = Platform(*order)
    for period in range(11):
        seen = {SLOW: done(period // 2), FAST: done(4 * period)}
        platform.pass_a_period(**{name: seen[name] for name in order})
    assert not platform.requests(WorkDone)
    last = platform.requests(ProgressReport)[-1]
    assert last.text.startswith("5 of 40 iterations")
    assert last.done == pytest.approx(5 / STEPS, abs=1 / STEPS)
    assert last.performance == pytest.approx(120.0, rel=0.1)
    assert last.work_left_s == pytest.approx(35 * 120.0, rel=0.1)


def test_a_cluster_without_a_report_has_made_no_iteration() -> None:
    """Its VMs may still boot while those of the other are done."""
    platform = Platform(SLOW, FAST)
    platform.pass_a_period(**{FAST: done(STEPS)})
    platform.pass_a_period(**{FAST: done(STEPS)})
    assert not platform.requests(WorkDone)
    platform.pass_a_period(**{SLOW: done(1)})
    assert not platform.requests(WorkDone)
    platform.pass_a_period(**{SLOW: done(STEPS)})
    assert platform.requests(WorkDone)


def test_a_cluster_that_answers_without_a_log_does_not_count() -> None:
    """The same holds for VMs within a cluster."""
    platform = Platform(FAST, QUIET)
    platform.pass_a_period(**{QUIET: {"answering": 1.0}, FAST: done(STEPS)})
    assert platform.requests(WorkDone)


def test_between_decisions_all_clusters_with_vms_must_have_done_their_work() -> None:
    """One that answers without a log may be about to start."""
    platform = Platform(FAST, QUIET)
    platform.pass_a_period(**{FAST: done(1), QUIET: done(1)})
    platform.restart()
    platform.pass_a_period()
    platform.measure(1_100.0, {FAST: done(STEPS, exit=0.0)})
    assert not platform.requests(WorkDone)
    platform.measure(1_101.0, {QUIET: done(STEPS, exit=0.0)})
    assert platform.requests(WorkDone)
    platform = Platform(FAST, QUIET)
    platform.pass_a_period(**{FAST: done(1)})
    platform.measure(1_100.0, {QUIET: {"answering": 1.0}, FAST: done(STEPS, exit=0.0)})
    assert not platform.requests(WorkDone)


def test_one_failed_cluster_fails_the_platform(order: tuple[str, str]) -> None:
    """The other monitor's report changes nothing, before or after."""
    platform = Platform(*order)
    seen = {SLOW: done(3, exit=2.0), FAST: done(3, exit=0.0)}
    platform.pass_a_period(**{name: seen[name] for name in order})
    (given_up,) = platform.requests(GiveUp)
    assert given_up.reason == "the application ended with code 2"


OLD = {
    "seen_s": 1_000.0,
    "done": 30,
    "exit": None,
    "at_s": 1_000.0,
    "part": 1.0,
    "effort_s": 300.0,
    "seen_effort_s": 300.0,
    "marks": [[0.0, 0], [100.0, 10], [200.0, 20], [300.0, 30]],
}
"""The stored memory of 30 iterations of ten seconds."""


class TestExitCodes:
    @pytest.mark.parametrize("made", [0, 17, STEPS])
    def test_a_program_that_ends_successfully_is_done(self, made: int) -> None:
        """It may converge before the number of iterations in its template."""
        platform = Platform(SLOW)
        platform.pass_a_period(**{SLOW: done(min(made, STEPS - 1))})
        platform.pass_a_period(**{SLOW: done(made, exit=0.0)})
        reason = f"the application ended successfully, with {made} of 40 iterations seen"
        assert platform.requests(WorkDone)[-1].reason == reason

    def test_the_other_clusters_continue(self, order: tuple[str, str]) -> None:
        """Each must succeed or make all iterations; the remaining work is theirs."""
        platform = Platform(*order)
        platform.pass_a_period(**{name: done(3) for name in order})
        platform.pass_a_period(**{FAST: done(4, exit=0.0), SLOW: done(5)})
        for count in range(6, STEPS):
            platform.pass_a_period(**{SLOW: done(count)})
            assert platform.requests(ProgressReport)[-1].text.startswith(
                f"{count} of 40 iterations"
            )
        assert not platform.requests(WorkDone)
        platform.pass_a_period(**{SLOW: done(STEPS)})
        reason = "the application ended successfully, with 4 of 40 iterations seen"
        assert platform.requests(WorkDone)[-1].reason == reason

    def test_a_vm_that_is_away_may_have_work_left(self) -> None:
        """Monitors report running VMs: one success is not the end of all."""
        platform = Platform(SLOW, FAST)
        platform.pass_a_period(**{SLOW: done(3), FAST: done(9)})
        platform.away = SLOW
        platform.pass_a_period(**{name: done(9, exit=0.0) for name in (SLOW, FAST)})
        assert not platform.requests(WorkDone)
        platform.away = ""
        platform.pass_a_period()
        assert platform.requests(WorkDone)

    def test_a_restarted_program_has_not_ended(self) -> None:
        """A replacement VM restarts it."""
        platform = Platform(SLOW, FAST)
        platform.pass_a_period(**{SLOW: done(3), FAST: done(9, exit=0.0)})
        platform.pass_a_period(**{SLOW: done(STEPS), FAST: done(1)})
        assert not platform.requests(WorkDone)
        platform.pass_a_period(**{FAST: done(9, exit=0.0)})
        assert platform.requests(WorkDone)


class TestKeptBefore:
    """Memory of earlier versions contains one cluster's progress without its name."""

    def test_the_progress_belongs_to_a_single_cluster(self) -> None:
        """Its pace is known at once."""
        platform = Platform(SLOW, progress=OLD)
        platform.pass_a_period()
        last = platform.requests(ProgressReport)[-1]
        assert last.text.startswith("30 of 40 iterations, 10 s each")

    def test_of_two_clusters_the_monitors_show_the_owner(self, order: tuple[str, str]) -> None:
        """Until then the progress counts for both."""
        platform = Platform(*order, progress=OLD, absent={SLOW: {}, FAST: {}})
        platform.pass_a_period()
        platform.pass_a_period(**{SLOW: done(6), FAST: done(STEPS)})
        platform.pass_a_period(**{SLOW: done(7), FAST: done(STEPS)})
        assert not platform.requests(WorkDone)
        assert platform.requests(ProgressReport)[-1].text.startswith("7 of 40 iterations")

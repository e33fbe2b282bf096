"""A frontend in virtual time with a manager of platforms, and controllers that only record."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import replace
from typing import Any

from twisted.internet.defer import ensureDeferred

from merkatd.currency.settings import MoneySettings
from merkatd.database.fleets import platform_store
from merkatd.database.fleets.fleet_store import PLATFORM_VMS, PlatformMember
from merkatd.database.fleets.platform_store import PlatformAction, PlatformRow
from merkatd.platforms.declared_applications import DeclaredApplications
from merkatd.platforms.job_recorder import JobRecorder
from merkatd.platforms.manager import Manager
from merkatd.platforms.strategy_wishes import scale_platforms
from merkatd.platforms.tenant_orders import Update
from merkatd.protocol.platform_messages import (
    Action,
    ActionOutcome,
    ActionReceiver,
    Assignment,
    Kinds,
    MarketNow,
    MonitorReading,
    News,
    PlatformStatus,
)
from merkatd.scheduler.base.ports import CloudUnreachableError
from merkatd.service.platforms import PlatformService
from tests.scheduler.frontend import PAPER_MARKET, PASSWORD, Frontend
from tests.served import services_at

BOB = f"bob:{PASSWORD}"

VM = """\
CPU="1"
VCPU="2"
MEMORY="1024"
EMBEDDED=[WORK="1000000",DEMAND="1",MEMORY_USE="256"]
"""


def template(**changes: str) -> str:
    """Return the template of a platform of two VMs; parts are replaced or added by name."""
    parts = {
        "top": 'name = "weather"',
        "controller": '[controller]\nkind = "notes"',
        "budget": "[budget]\ncredits = 50000",
        "slo": "",
        "start": "",
        "cluster": f'[[cluster]]\nname = "nodes"\nleast = 1\ninitial = 2\nmost = 4\n'
        f'template = """\n{VM}"""',
    } | changes
    return "\n\n".join(parts.values())


class Notes:
    """Implements `merkatd.protocol.platform_messages.Controllers`."""

    def __init__(self) -> None:
        self.running: dict[int, Assignment] = {}
        self.started: list[Assignment] = []
        self.kept: AbstractSet[int] = frozenset()
        self.stopped: list[tuple[int, float]] = []
        self.news: list[News] = []
        self.offered = Kinds(("notes",), ("steps",))
        self.measured: dict[int, dict[str, MonitorReading]] = {}
        """The readings of monitors, by platform and cluster."""

    def attend(self, attendant: ActionReceiver) -> None:
        """Set the receiver of actions."""
        self.attendant = attendant

    def kinds(self) -> Kinds:
        """Return the offered kinds."""
        return self.offered

    async def start(self, assignment: Assignment) -> None:
        """Record the start."""
        assert assignment.platform not in self.running
        self.running[assignment.platform] = assignment
        self.started.append(assignment)

    async def stop(self, platform: int, grace_s: float) -> None:
        """Record the stop."""
        del self.running[platform]
        self.stopped.append((platform, grace_s))

    def readings(self, platform: int) -> Mapping[str, MonitorReading]:
        """Return the readings that the test has set."""
        return self.measured.get(platform, {})

    def tidy(self, kept: AbstractSet[int]) -> int:
        """Record the kept platforms; there are no files."""
        self.kept = kept
        return 0

    def announce(self, markets: Sequence[MarketNow], standings: Sequence[PlatformStatus]) -> None:
        """Record the news."""
        by_name = {market.name: market for market in markets}
        for standing in standings:
            market = by_name[self.running[standing.platform].market]
            self.news.append(News.joined(standing, market))

    async def close(self) -> None:
        """Forget all processes."""
        self.running.clear()


class Site(Frontend):
    """Two users, `ann` and `bob`, with credits."""

    def __init__(self, **settings: Any) -> None:
        money = MoneySettings(supply=10_000_000)
        given: dict[str, Any] = {"money": money, "markets": (PAPER_MARKET,)}
        super().__init__(**(given | settings))
        self.ann, self.bob = self.first_tenants(("ann", "bob"))

    def start_daemon(self) -> None:
        """Start a daemon with a manager, without any memory."""
        super().start_daemon()
        self.notes = Notes()
        self.manager = Manager(self.scheduler.world, self.notes)
        self.declared = DeclaredApplications(self.notes.readings)
        self.jobs = JobRecorder(self.declared, lambda: self.scheduler.world)
        world = replace(
            self.scheduler.world,
            proposals=self.manager.proposals,
            applications=self.declared.tables,
            scale=scale_platforms,
        )
        self.scheduler.world = world
        self.scheduler.listen(self.manager.send_news)

    def period(self) -> Any:
        """Run a period, and pass its announcement to the manager."""
        announcement = super().period()
        self.manager.send_news(announcement)
        self.declared.after_period(announcement)
        self.jobs.after_period(announcement)
        return announcement

    def submit(self, owner: int | None = None, **changes: str) -> int:
        """Submit a platform and return its id."""
        return self.take(self.ann if owner is None else owner, template(**changes))

    def take(self, owner: int, text: str) -> int:
        """Submit a platform with this text and return its id."""

        async def taken() -> int:
            given = await self.manager.fitting(text)
            return await self.manager.submit(owner, given, {}, "ann", lambda _, row: row.id)

        platform: int = self.wait(taken())
        return platform

    def update(self, platform: int, new: Update) -> None:
        """Change a platform's goal or budget."""
        self.wait(self.manager.update(platform, new, "ann", lambda _, row: row.id))

    def wait(self, coroutine: Any) -> Any:
        """Return the result of a coroutine."""
        return self.result(ensureDeferred(coroutine))

    def act(self, platform: int, action: Action, action_id: str = "1") -> ActionOutcome:
        """Act as the platform's controller."""
        outcome: ActionOutcome = self.wait(self.manager.act(platform, action_id, action))
        return outcome

    def platform(self, platform: int) -> PlatformRow:
        """Return the stored row of a platform."""
        row: PlatformRow | None = self.read(lambda c: platform_store.get(c, platform))
        assert row is not None
        return row

    def members(self, platform: int) -> tuple[PlatformMember, ...]:
        """Return the living members of a platform."""
        rows: tuple[PlatformMember, ...] = self.read(lambda c: PLATFORM_VMS.living(c, platform))
        return rows

    def vms(self, platform: int) -> list[int]:
        """Return the VM ids of the living members."""
        return [member.vm for member in self.members(platform) if member.vm is not None]

    def doings(self, platform: int) -> tuple[PlatformAction, ...]:
        """Return the recorded actions, newest first."""
        actions: tuple[PlatformAction, ...] = self.read(
            lambda c: platform_store.recent(c, platform, 100)
        )
        return actions

    def until(self, platform: int, state: str, most: int = 20) -> PlatformRow:
        """Run periods until the platform is in a state; return its row."""
        for _ in range(most):
            if self.platform(platform).state == state:
                return self.platform(platform)
            self.periods(1)
        raise AssertionError(f"it is {self.platform(platform)}, not {state}")

    def cut_off_after(self, count: int) -> Any:
        """Let the cloud execute `count` more calls, and then lose every answer.

        Only calls that change the cloud count; the returned value restores it.
        """
        real, left = self.transport.call, [count]

        async def call(method: str, session: str, *arguments: Any) -> Any:
            if method not in {"one.vm.allocate", "one.vm.chown"}:
                return await real(method, session, *arguments)
            left[0] -= 1
            if left[0] < 0:
                raise OSError("cut off before")
            done = await real(method, session, *arguments)
            if left[0] == 0:
                raise OSError("cut off after")
            return done

        self.transport.call = call  # type: ignore[method-assign]
        return real

    def restore(self, real: Any) -> None:
        """Let the cloud answer again."""
        self.transport.call = real  # type: ignore[method-assign]

    def try_period(self) -> None:
        """Run a period that may fail."""
        with suppress(CloudUnreachableError):
            self.period()

    def alive(self) -> list[int]:
        """Return the ids of all VMs in the cloud that are not done."""
        return [vm.id for vm in self.cloud.world.vms.rows.values() if vm.state != 6]


def platforms_at(site: Site) -> PlatformService:
    """Return the service of a site whose templates use nothing of OpenNebula."""
    return services_at(site.scheduler, site.manager).require_platforms()

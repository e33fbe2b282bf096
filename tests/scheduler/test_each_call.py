"""Each kind of call of a busy daemon fails once, before or after it takes effect."""

import contextlib
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from merkatd.cluster import Create, Resume, Step, Stop, Suspend, Terminate, VmState
from merkatd.database.base.transactions import Transactions
from merkatd.database.scheduler import journal
from merkatd.embedded.memory_transport import ConnectionDropped, MemoryTransport
from merkatd.scheduler.base.ports import CloudUnreachableError
from merkatd.scheduler.observation.observed import Observed
from tests.scheduler.frontend import QUICK
from tests.scheduler.test_acting import careful, careful_settings

KEY = "the-one-that-is-made"
MADE = f'CPU="1"\nMEMORY="512"\nMERKAT_KEY="{KEY}"\n'
LAN = 'NAME="lan"\nVN_MAD="dummy"\nBRIDGE="br0"\nAR=[TYPE="IP4",IP="10.0.0.1",SIZE="9"]\n'

CALLS = frozenset({
    "embedded.limits.set",
    "embedded.limits.runs",
    "embedded.limits.table",
    "one.acl.info",
    "one.clusterpool.info",
    "one.datastorepool.info",
    "one.grouppool.info",
    "one.host.info",
    "one.hostpool.info",
    "one.hostpool.monitoring",
    "one.system.config",
    "one.system.version",
    "one.user.info",
    "one.userpool.info",
    "one.vm.action",
    "one.vm.allocate",
    "one.user.login",
    "one.vm.deploy",
    "one.vm.info",
    "one.vm.migrate",
    "one.vm.recover",
    "one.vm.update",
    "one.vmgrouppool.info",
    "one.vmpool.infoextended",
    "one.vmpool.infoset",
    "one.vnpool.info",
})  # fmt: skip
"""All methods that a busy daemon calls."""

ANN = 2
MOST_PERIODS = 40
LEASED = 'CPU="1"\nMEMORY="512"\nNIC=[NETWORK_MODE="auto"]\n'
_STEPS = {VmState.SUSPENDED: Suspend, VmState.RUNNING: Resume, VmState.ABSENT: Stop}


class Tenant:
    """Request one more VM, and certain states for other VMs."""

    def __init__(self, owner: int) -> None:
        self.owner = owner
        self.goals: dict[int, VmState] = {}
        self.doomed: int | None = None

    async def proposals(self, _database: Transactions, seen: Observed) -> Sequence[Step]:
        """Return the remaining steps for VMs that have no step under way."""
        observed, period = seen.observation, seen.period
        busy = {row.step.vm for row in seen.verdicts.waiting}
        state = dict(zip(observed.vm_id.tolist(), observed.vm_state.tolist(), strict=True))
        steps: list[Step] = []
        if (KEY, self.owner) not in observed.keys:
            steps.append(Create(period=period, reason="", key=KEY, template=MADE, owner=self.owner))
        if self.doomed is not None and self.doomed in state and self.doomed not in busy:
            steps.append(Terminate(period=period, vm=self.doomed, reason=""))
        for vm, goal in self.goals.items():
            still = VmState.SUSPENDED if goal is VmState.RUNNING else VmState.RUNNING
            if vm not in busy and state.get(vm) == int(still):
                steps.append(_STEPS[goal](period=period, vm=vm, reason=""))
        return steps


Call = Callable[..., Awaitable[list[Any]]]
Fate = Callable[..., Awaitable[list[Any]]]


async def refused(_call: Call, method: str, *_arguments: Any) -> list[Any]:
    """Refuse the call without any effect."""
    return [False, f"[{method}] Not now", 8192, -1, -1]


async def unsent(call: Call, method: str, *arguments: Any) -> list[Any]:
    """Lose the connection before the call takes effect."""
    if method == "one.vm.recover":
        return await call(method, *arguments)
    raise ConnectionDropped("the connection was lost")


async def unanswered(call: Call, method: str, *arguments: Any) -> list[Any]:
    """Lose the connection after the call took effect, before the answer."""
    await call(method, *arguments)
    raise ConnectionDropped("the connection was lost before the answer")


class Once:
    """A transport on which each kind of call fails the first time."""

    def __init__(self, transport: MemoryTransport, fate: Fate) -> None:
        self._transport, self._fate = transport, fate
        self.called: set[str] = set()

    async def call(self, method: str, *arguments: Any) -> list[Any]:
        """Make the first call of a method fail, and pass on the later ones."""
        if method in self.called:
            return await self._transport.call(method, *arguments)
        self.called.add(method)
        return await self._fate(self._transport.call, method, *arguments)


class Busy:
    """A cloud in which a daemon has to make every kind of call."""

    def __init__(self, fate: Fate) -> None:
        self.tenant = Tenant(ANN)
        self.frontend = careful(QUICK)
        assert self.frontend.bench.ok("one.user.allocate", "ann", "secret", "core") == ANN
        self.frontend.bench.ok("one.vn.allocate", LAN)
        self.transport = Once(self.frontend.transport, fate)
        self.frontend.transport = self.transport  # type: ignore[assignment]
        self.frontend.world_settings = {
            **careful_settings(self.frontend, QUICK), "proposals": self.tenant.proposals
        }  # fmt: skip
        self.frontend.start_daemon()

    def live(self) -> None:
        """Run periods until every VM is in its requested state, in three stages."""
        new = self.frontend.vm
        vms = {name: new() for name in ("moves", "sleeps", "wakes", "stops", "ends", "boots late")}
        vms["leased"] = self.frontend.bench.new(LEASED)
        vms["waits"] = new(MEMORY=99_999, MERKAT_MIN_MEMORY=99_000)
        fails = {"kind": "fail", "lcm": "BOOT", "vm": vms["boots late"], "count": 1}
        self.frontend.bench.ok("embedded.fault.add", fails)
        self._until(vms, dict.fromkeys(vms, "RUNNING") | {"waits": "PENDING"})
        self.tenant.goals = {
            vms["sleeps"]: VmState.SUSPENDED,
            vms["wakes"]: VmState.SUSPENDED,
            vms["stops"]: VmState.ABSENT,
        }
        self.tenant.doomed = vms["ends"]
        before = len(self.frontend.bench.vm(vms["moves"]).history)
        self.frontend.bench.ok("one.vm.action", "resched", vms["moves"])
        asleep = {"sleeps": "SUSPENDED", "wakes": "SUSPENDED", "stops": "STOPPED", "ends": "DONE"}
        self._until(vms, asleep)
        self.tenant.goals[vms["wakes"]] = VmState.RUNNING
        self._until(vms, asleep | {"wakes": "RUNNING", "moves": "RUNNING", "leased": "RUNNING"})
        bench = self.frontend.bench
        # A migration for gain may come first; to leave its host the VM migrates once.
        assert len(bench.vm(vms["moves"]).history) == before + 1
        self._moved_as_planned()
        assert bench.cloud.world.networks.rows[0].leases == [vms["leased"]]
        assert "a host with 99,999 MiB of memory" in bench.vm(vms["waits"]).user_template.get(
            "SCHED_MESSAGE"
        )
        made = [vm for vm in bench.cloud.world.vms if vm.user_template.get("MERKAT_KEY") == KEY]
        assert [vm.uid for vm in made] == [ANN]
        self.frontend.agree()

    def _moved_as_planned(self) -> None:
        """Check that every change of host is one migration of the journal."""
        rows = self.frontend.read(lambda c: journal.recent(c, journal.StepFilter(), 100_000))
        planned = Counter(
            row.step.vm for row in rows if row.step.kind == "migrate" and row.state == "confirmed"
        )
        for vm in self.frontend.bench.cloud.world.vms:
            hosts = [record.host for record in vm.history]
            moves = sum(host != other for host, other in itertools.pairwise(hosts))
            assert moves == planned[vm.id], (vm.id, hosts)

    def _until(self, vms: dict[str, int], wanted: dict[str, str]) -> None:
        for _ in range(MOST_PERIODS):
            with contextlib.suppress(CloudUnreachableError):
                self.frontend.period()
            self.frontend.clock.advance(60)
            seen = {name: self.frontend.state(vms[name]) for name in wanted}
            if seen == wanted and not self.frontend.outstanding():
                return
        raise AssertionError(seen)


@pytest.mark.parametrize("fate", [refused, unsent, unanswered], ids=lambda fate: fate.__name__)
def test_the_cloud_recovers_after_each_kind_of_call_fails_once(fate: Fate) -> None:
    """No call is duplicated and no VM is forgotten."""
    busy = Busy(fate)
    busy.live()
    assert busy.transport.called == CALLS
    busy.frontend.close()

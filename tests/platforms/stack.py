"""Cloud, daemon, controllers and monitors as separate processes, with active platforms."""

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from merkatd.api.control.control_client import DaemonNotRunningError, ask
from merkatd.database.fleets import platform_store
from merkatd.database.fleets.fleet_store import PLATFORM_VMS, PlatformMember
from merkatd.database.fleets.platform_store import DOINGS
from merkatd.database.ledger.entry_store import audit
from merkatd.platforms.processes import program
from tests.daemon.agreement import CloudVm, cloud_vms, done_once
from tests.daemon.harness import Site
from tests.daemon.processes import until

INTERVAL_S = 0.4
TICK_S = 0.1
"""Checks cost more than most of the checked actions."""
CONTROLLERS = {
    "swinging.py": """
from pathlib import Path
from controllers.controller import Controller

class Swinging(Controller):
    async def on_start(self):
        self.memory.setdefault("count", 0)
        self.memory.setdefault("seen", 0)

    async def on_progress(self, measured):
        self.memory["seen"] += 1

    async def on_price(self, news):
        if news.state != "running" or Path(self.assignment.parameters["rest"]).exists():
            return
        count = self.memory["count"] + 1
        outcome = await self.set_size("nodes", 1 + count % 3, reason=str(count))
        if outcome.accepted:
            self.memory["count"] = count
""",
    "ticking.py": """
import time
from controllers.monitors.monitor import Monitor

class Ticking(Monitor):
    async def look(self):
        return time.time(), {"tick": 1.0}
""",
}
_TEMPLATE = '''
name = "{name}"
over_budget = "go on"
[controller]
kind = "swinging"
parameters = {{ rest = "{rest}" }}
[budget]
credits = 10000
{more}
[[cluster]]
name = "nodes"
least = 1
initial = 2
most = 3
template = """
CPU="0.25"
VCPU="1"
MEMORY="256"
EMBEDDED=[WORK="1000000000",DEMAND="1"]
"""
[cluster.monitor]
kind = "ticking"
parameters = {{ every_s = 1 }}
'''
# The simple strategy: another one of the tests creates VMs of its own.
_DAEMON = """
[daemon]
state_directory = "{directory}/state"
[period]
interval = "{interval}s"
settle = "0.15s"
step_limit = "3s"
migration_limit = "3s"
[cloud]
kind = "opennebula"
endpoint = "{endpoint}"
auth_file = "{directory}/one_auth"
call_limit = "2s"
[market.default]
strategy = "paper"
[bus]
beat = "500ms"
restart_least = "50ms"
restart_most = "200ms"
restart_tries = 1000
"""
_RUNNING, _SUSPENDED, _DONE = ("3", "3"), ("5", "0"), ("6", "0")


class Stack(Site):
    """The site of the daemon's own tests, with platforms of its first user."""

    def __init__(self, directory: Path, seed: int) -> None:
        super().__init__(directory, seed)
        self.home = directory / "state"
        self.rest = directory / "rest"
        """While this file exists, controllers change nothing."""
        self.wanted: dict[int, str] = {}
        """By platform: its expected state."""
        folder = self.home / "controllers"
        folder.mkdir()
        for name, text in CONTROLLERS.items():
            (folder / name).write_text(text)

    def configure(self, **_: Any) -> None:
        """Write the configuration for the next daemon."""
        text = _DAEMON.format(
            directory=self.directory,
            interval=INTERVAL_S,
            endpoint=f"http://{self._address}/RPC2",
        )
        (self.directory / "merkatd.toml").write_text(text)

    # -- platforms ----------------------------------------------------------------------------

    def submit(self, name: str, wanted: str, more: str = "") -> int:
        """Submit a platform that should reach a state."""
        text = _TEMPLATE.format(name=name, more=more, rest=self.rest)
        platform = int(self.order("submit", tenant="2", template=text)["id"])
        self.wanted[platform] = wanted
        return platform

    def order(self, what: str, **arguments: Any) -> Any:
        """Return the daemon's answer as soon as there is one."""

        def answered() -> Any:
            with contextlib.suppress(DaemonNotRunningError):
                return ask(self.home / "control.sock", f"platform_{what}", arguments)
            assert self.daemon is not None
            assert self.daemon.running, self.daemon.output()
            return None

        return until(answered, f"an answer to {what}")

    # -- processes ----------------------------------------------------------------------------

    def present(self) -> Mapping[str, list[int]]:
        """Return all processes of the daemon by role."""
        pids: dict[str, list[int]] = {}
        for pid in sorted(program.marked(str(self.home))):
            pids.setdefault(_role(pid), []).append(pid)
        return pids

    def await_actions(self) -> None:
        """Wait until all processes run and each controller has acted again."""
        until(self._complete, "all processes", tick_s=TICK_S)
        before = self.read(_counts)
        wanted = [role for role, state in self.wanted.items() if state == "running"]

        def heard() -> bool:
            now = self.read(_counts)
            return all(len(now.get(role, [])) > len(before.get(role, [])) for role in wanted)

        until(heard, "an action of each", tick_s=TICK_S)

    def _complete(self) -> bool:
        attended = list(self.wanted.values()).count("running")
        numbers = {name: len(pids) for name, pids in self.present().items()}
        return numbers == {"warden": 1, "controller": attended, "monitor": attended}

    # -- what must hold -----------------------------------------------------------------------

    def settle(self) -> None:
        """Let controllers rest, and wait until everything is in its expected state."""
        self.rest.touch()
        try:
            left: list[str] = []

            def settled() -> bool:
                left[:] = [self._astray()]
                return not left[0]

            try:
                until(settled, "every member in its expected state", tick_s=2 * TICK_S)
            except AssertionError as error:
                raise AssertionError(left, self.present()) from error
            done_once(self)
            assert self.read(audit).sound
        finally:
            self.rest.unlink()

    def check_counts(self, kills: int) -> None:
        """Check that each controller continued its count after the kills."""
        for counts in self.read(_counts).values():
            steps = [after - before for before, after in pairwise(counts)]
            # A controller that was killed between its action and the storing of its memory repeats
            # its count, as another action.
            assert counts[0] == 1
            assert set(steps) <= {0, 1}
            assert steps.count(0) <= kills

    def _astray(self) -> str:
        """Return the members in an unexpected state, or ""."""
        if not self._complete():
            return f"processes: {self.present()}"
        stored = {row.id: row for row in self.read(platform_store.listed)}
        states = {row.id: row.state for row in stored.values()}
        if states != self.wanted:
            return f"platforms: {states}"
        present = self.read(PLATFORM_VMS.living)
        for row in stored.values():
            size = sum(row.sizes.values()) if row.state == "running" else None
            mine = [member for member in present if member.platform == row.id]
            if size not in {None, len(mine)} or any(member.leaving for member in mine):
                return f"platform {row.id} is to have {row.sizes}, and has {mine}"
        vms = {vm.id: vm for vm in cloud_vms(self)}
        known = {member.vm for member in present}
        orphans = [
            vm.words for vm in vms.values() if vm.state != _DONE and vm.key and vm.id not in known
        ]
        if orphans:
            return f"orphans: {orphans}"
        wrong = (
            self._wrong(platform, state, present, vms) for platform, state in self.wanted.items()
        )
        return next((text for text in wrong if text), "")

    def _wrong(
        self,
        platform: int,
        state: str,
        present: tuple[PlatformMember, ...],
        vms: Mapping[int, CloudVm],
    ) -> str:
        stored = self.read(lambda connection: platform_store.get(connection, platform))
        assert stored is not None
        mine = [member for member in present if member.platform == platform]
        if state not in {"running", "suspended"}:
            return f"platform {platform} has {mine}" if mine else ""
        wanted = _RUNNING if state == "running" else _SUSPENDED
        have = Counter(
            vms[member.vm].state for member in mine if member.vm is not None and member.vm in vms
        )
        size = sum(stored.sizes.values()) if state == "running" else len(mine)
        right = have == {wanted: size} and len(mine) == size > 0
        return "" if right else f"platform {platform}, {state}, has {have} of {stored.sizes}"


def _counts(connection: sa.Connection) -> dict[int, list[int]]:
    """Return what each platform's controller counted, in the order of its actions."""
    query = sa.select(DOINGS.c.platform, DOINGS.c.text).order_by(DOINGS.c.id)
    mine = (DOINGS.c.who == "controller", DOINGS.c.what == "size", DOINGS.c.refused.is_(False))
    counts: dict[int, list[int]] = {}
    for platform, text in connection.execute(query.where(*mine)):
        counts.setdefault(platform, []).append(int(text))
    return counts


def _role(pid: int) -> str:
    """Return `warden`, `controller`, `monitor` or another role."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except OSError:
        return ""
    if "merkatd.platforms.processes.warden" in words:
        return "warden"
    return words[3] if len(words) > 3 else ""


@contextlib.contextmanager
def stack(directory: Path, seed: int) -> Iterator[Stack]:
    """Yield a site with platforms in all states; leave no process behind."""
    new_stack = Stack(directory, seed)
    try:
        new_stack.start_cloud()
        new_stack.start_daemon()
        new_stack.submit("steady", "running")
        new_stack.submit("paused", "running")
        new_stack.submit("later", "postponed", "[start]\nnot_before = 2100-01-01T00:00:00Z")
        ended = new_stack.submit("ended", "cancelled")
        new_stack.order("stop", platform=ended)
        yield new_stack
    finally:
        new_stack.close()
        program.kill(program.marked(str(new_stack.home)))

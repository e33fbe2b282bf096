"""After kills of any process of a site, its platforms continue."""

import os
import signal
import time
from pathlib import Path

from merkatd.platforms.processes import program
from tests.daemon.processes import until
from tests.platforms.stack import INTERVAL_S, TICK_S, Stack, stack

KILLS = int(os.environ.get("MERKAT_SOAK", "3"))
SEED = int(os.environ.get("MERKAT_SEED", "1"))
VICTIMS = ("daemon", "controller", "monitor", "warden")
"""Each is killed in turn, in a changing order."""


def kill(site: Stack, victim: str) -> None:
    """Kill a process, as a power cut would; restart a daemon."""
    if victim != "daemon":
        pids = site.present().get(victim)
        if pids:
            os.kill(int(site.rng.choice(pids)), signal.SIGKILL)
        return
    site.kill_daemon()
    if site.rng.random() < 0.5:  # wait until all have ended, or restart at once
        until(lambda: not program.marked(str(site.home)), "no process left", tick_s=TICK_S)
    site.start_daemon()


def toggle(site: Stack, platform: int) -> None:
    """Suspend or resume a platform as its tenant."""
    suspended = site.wanted[platform] == "suspended"
    site.order("resume" if suspended else "suspend", platform=platform)
    site.wanted[platform] = "running" if suspended else "suspended"


def test_kills_leave_no_process_and_repeat_no_action(tmp_path: Path) -> None:
    """After kills at any moment, every platform reaches its expected state."""
    with stack(tmp_path, SEED) as site:
        site.await_actions()
        order: list[str] = []
        for number in range(KILLS):
            order = order or [str(victim) for victim in site.rng.permutation(VICTIMS)]
            if number % 3 == 1:
                toggle(site, sorted(site.wanted)[1])
            if site.rng.random() < 0.3:
                site.await_actions()
            time.sleep(float(site.rng.uniform(0.0, 3 * INTERVAL_S)))
            kill(site, order.pop())
            site.settle()
        site.await_actions()
        site.check_counts(KILLS)
        site.kill_daemon()
        until(lambda: not program.marked(str(site.home)), "no process left", tick_s=TICK_S)

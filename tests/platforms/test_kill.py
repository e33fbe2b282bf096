"""Whoever is killed of a whole site, its platforms go on from where they were."""

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
"""Each comes in turn, in an order that changes."""


def kill(site: Stack, victim: str) -> None:
    """End one of them as a power cut would; a daemon is started again."""
    if victim != "daemon":
        pids = site.present().get(victim)
        if pids:
            os.kill(int(site.rng.choice(pids)), signal.SIGKILL)
        return
    site.kill_daemon()
    if site.rng.random() < 0.5:  # seen through to the end, or started again at once
        until(lambda: not program.marked(str(site.home)), "nobody left", tick_s=TICK_S)
    site.start_daemon()


def turn(site: Stack, platform: int) -> None:
    """Let its tenant suspend a platform, or resume it."""
    suspended = site.wanted[platform] == "suspended"
    site.order("resume" if suspended else "suspend", platform=platform)
    site.wanted[platform] = "running" if suspended else "suspended"


def test_kills_leave_nobody_over_and_double_nothing(tmp_path: Path) -> None:
    """Each in turn, at any moment: every platform comes to where it should be."""
    with stack(tmp_path, SEED) as site:
        site.at_work()
        order: list[str] = []
        for number in range(KILLS):
            order = order or [str(one) for one in site.rng.permutation(VICTIMS)]
            if number % 3 == 1:
                turn(site, 2)
            if site.rng.random() < 0.3:
                site.at_work()
            time.sleep(float(site.rng.uniform(0.0, 3 * INTERVAL_S)))
            kill(site, order.pop())
            site.settle()
        site.at_work()
        site.once(KILLS)
        site.kill_daemon()
        until(lambda: not program.marked(str(site.home)), "nobody left", tick_s=TICK_S)

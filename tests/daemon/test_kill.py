"""The daemon and the cloud, killed at random moments, lose nothing and repeat nothing."""

import pytest

from tests.daemon.agreement import agree
from tests.daemon.harness import INTERVAL_S, Site
from tests.daemon.processes import until
from tests.daemon.settling import settle
from tests.daemon.soak import CLOUD_KILLS_PER_SITE, KILLS_BEFORE_REST, KILLS_PER_SITE, SITES
from tests.lengths import shorten

CALL_S = 0.025
"""The least duration of a call, so that most kills hit a period in progress."""

EACH_SITE = pytest.mark.parametrize("site", SITES, indirect=True, ids=lambda seed: f"seed{seed}")


def work_for_up_to_two_periods(site: Site) -> None:
    """Wait for the first good period; let the tenants act until a random moment."""
    site.fault("delay", "*", seconds=CALL_S)
    site.after_good_periods(1, busy=True)
    site.busy_for(float(site.rng.uniform(0.0, 2 * INTERVAL_S)))


def until_it_acts(site: Site) -> None:
    """Wait until the daemon has just observed the cloud, and a random time longer."""
    work_for_up_to_two_periods(site)
    begun = site.begun_periods()
    until(lambda: site.begun_periods() > begun, "a period begun", site.tenants.act)
    site.busy_for(float(site.rng.uniform(0.0, INTERVAL_S / 2)))


def until_any_moment(site: Site) -> None:
    """Wait for a random moment: during the start, during the steps, or any other."""
    draw = site.rng.random()
    if draw < 0.3:
        site.busy_for(float(site.rng.uniform(0.0, 2 * INTERVAL_S)))
    elif draw < 0.7:
        until_it_acts(site)
    else:
        work_for_up_to_two_periods(site)


@EACH_SITE
def test_a_daemon_killed_at_random_moments_loses_and_repeats_nothing(site: Site) -> None:
    """The next good periods correct the state after the kills."""
    for kill in range(1, shorten(KILLS_PER_SITE, 6) + 1):
        until_any_moment(site)
        site.kill_daemon()
        site.heal()
        agree(site)
        site.start_daemon()
        if kill % KILLS_BEFORE_REST == 0:
            settle(site)
            agree(site)


@EACH_SITE
def test_the_daemon_survives_kills_of_the_cloud(site: Site) -> None:
    """It continues with the restarted cloud."""
    for _ in range(CLOUD_KILLS_PER_SITE):
        work_for_up_to_two_periods(site)
        site.kill_cloud()
        site.busy_for(2 * INTERVAL_S)
        site.start_cloud()
        settle(site)
        agree(site)
    assert site.daemon is not None
    assert site.daemon.running


@EACH_SITE
def test_daemon_and_cloud_killed_together_agree_again(site: Site) -> None:
    """A power cut of their common machine has this effect."""
    for _ in range(CLOUD_KILLS_PER_SITE):
        work_for_up_to_two_periods(site)
        site.kill_daemon()
        site.kill_cloud()
        site.start_cloud()
        agree(site)
        site.start_daemon()
        settle(site)
        agree(site)

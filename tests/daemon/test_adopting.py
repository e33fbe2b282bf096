"""A reloaded configuration applies to every part of the daemon."""

from dataclasses import replace
from typing import Any

import pytest

from merkatd.config.configuration import Config
from merkatd.daemon.reload import ConfigurationReload, RunningParts, rules_of
from merkatd.groups.group_keeper import Keeper
from tests.platforms.site import Site
from tests.served import services_at


@pytest.fixture
def reloaded() -> Any:
    """Return a daemon's parts and the configuration that was reloaded."""
    site = Site()
    keeper = Keeper(site.scheduler.world)
    ledgers = (services_at(site.scheduler, site.manager).ledger,)
    going = RunningParts(site.scheduler, site.manager, keeper, ledgers, None)
    before = Config()
    money = replace(before.money, starting_credits=123.0)
    new = replace(before, money=money, period=replace(before.period, interval_s=77.0))
    yield going, ConfigurationReload(going, before).take(new)
    site.close()


def test_ledgers_use_the_new_money_settings(reloaded: Any) -> None:
    """Tenants created after a reload get the new starting credits."""
    going, config = reloaded
    assert config.money.starting_credits == 123.0
    assert [ledger.money for ledger in going.ledgers] == [config.money]


def test_scheduler_platforms_and_groups_use_the_new_rules(reloaded: Any) -> None:
    """None of them keeps a rule from the start."""
    going, config = reloaded
    for world in (going.scheduler.world, going.manager.world, going.keeper.world):
        for name, rule in rules_of(config).items():
            assert getattr(world, name) == rule, name

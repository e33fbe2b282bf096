"""Which changes of a configuration apply at once, and which need a restart."""

import pytest

from merkatd.config.configuration import Config
from merkatd.config.loader import parse
from merkatd.config.reload_rules import changes_at_once
from merkatd.config.setting_values import sections

LIVE = """
[daemon]
log_level = "debug"
[acting]
mode = "ask"
[period]
interval = "30s"
[market.default]
floor_margin = 0.2
reserve_prices = { cpu = 0.5 }
[strategy.tabu]
hold = "1m"
[limits.memory]
shrink_unmeasured = true
[money]
unpaid_periods = 4
[failures]
power_per_year = 0.5
"""
FIXED = {
    "daemon.state_directory": '[daemon]\nstate_directory = "/elsewhere"',
    "database.pool_size": "[database]\npool_size = 2",
    "api.port": "[api]\nport = 7000",
    "metrics.port": "[metrics]\nport = 7001",
    "cloud.hosts": "[cloud]\nhosts = 3",
    "goods.network": "[goods]\nnetwork = true",
    "hypervisor.kind": '[hypervisor]\nkind = "none"',
    "bus.ssh_port": "[bus]\nssh_port = 23",
    "limits.cpu.quota_period": '[limits.cpu]\nquota_period = "50ms"',
    "market.default.strategy": '[market.default]\nstrategy = "paper"',
}


def test_live_settings_are_applied() -> None:
    """All changed settings are applied and named."""
    new = parse(LIVE)
    changes = changes_at_once(Config(), new)
    assert changes.restart == ()
    assert changes.config == new
    assert changes.changed == (
        "acting.mode",
        "daemon.log_level",
        "failures.power_per_year",
        "limits.memory.shrink_unmeasured",
        "market.default.floor_margin",
        "market.default.reserve_prices",
        "money.unpaid_periods",
        "period.interval",
        "strategy.tabu.hold",
    )


@pytest.mark.parametrize("key", FIXED)
def test_fixed_settings_are_named(key: str) -> None:
    """They keep their old value."""
    changes = changes_at_once(Config(), parse(FIXED[key]))
    assert (changes.changed, changes.restart) == ((), (key,))
    assert changes.config == Config()


def test_adding_a_market_needs_a_restart() -> None:
    """Stored data of a period depend on the markets."""
    new = parse("[market.default]\nfloor_margin = 0.2\n[market.fast]\nclusters = [100]\n")
    changes = changes_at_once(Config(), new)
    assert changes.config == Config()
    assert "market.fast.clusters" in changes.restart


def test_every_key_is_live_or_fixed() -> None:
    """Every difference is named, and none is dropped silently."""
    for path, _, settings in sections(Config()):
        assert settings, path
    same = changes_at_once(Config(), Config())
    assert (same.changed, same.restart, same.config) == ((), (), Config())

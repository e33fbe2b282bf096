"""Rules across several keys."""

import re
from dataclasses import asdict, fields
from pathlib import Path

import pytest

from merkatd.config.configuration import Config
from merkatd.config.errors import ConfigError
from merkatd.config.loader import parse
from merkatd.config.setting_schema import settings_of
from merkatd.config.setting_values import to_toml
from merkatd.currency import settings as currency
from merkatd.market.price import PriceRule
from merkatd.placement.contract import Pricing
from merkatd.placement.registry import STRATEGIES
from merkatd.scheduler.base import settings as scheduler


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ('step_limit = "30s"', "period.step_limit", "must be at least period.interval"),
        ('[cloud]\ncall_limit = "1h"', "cloud.call_limit", "must be at most period.step_limit"),
        ("in_flight = 1", "period.in_flight_per_host", "must be at most period.in_flight (1)"),
        ("[money]\nsupply = 5e12", "money.supply", "must be at most 4,000,000,000,000"),
        ("[money]\nsupply = 5", "money.starting_credits", "at most money.supply"),
        ("[money.policy]\nenabled = true", "money.policy.enabled", "needs a money.supply above 0"),
        ("[market]", "market", "must define at least one market"),
        ("[market.a]\n[market.b]", "market.b.clusters", "already belongs to market 'a'"),
        (
            "[market.a]\nclusters = [1]\n[market.b]\nclusters = [2, 1]",
            "market.b.clusters",
            "cluster 1 already belongs to market 'a'",
        ),
        (
            "[market.a]\ndefault_bid = { network = 2 }",
            "market.a.default_bid",
            "must not name network, which is not traded: set goods.network to true",
        ),
        (
            "[goods]\nnetwork = true\n[market.a.group_bids]\ngold = { network = 2, disk = 3 }",
            "market.a.group_bids",
            "must not name disk, which is not traded",
        ),
        (
            f'[daemon]\nstate_directory = "/{"x" * 120}"',
            "daemon.control_socket",
            "must be a shorter path",
        ),
    ],
)
def test_conflicting_keys_are_detected(text: str, where: str, message: str) -> None:
    """The problem names the key and the conflict."""
    with pytest.raises(ConfigError) as caught:
        parse(text if text.startswith("[") else f"[period]\n{text}")
    messages = {".".join(problem.path): problem.message for problem in caught.value.problems}
    assert message in messages[where]


def test_the_period_gets_markets_with_names_and_prices() -> None:
    """Markets come in the order of the file, in the scheduler's form."""
    first, second = parse(
        '[market.a]\nclusters = [3]\nprice_rule = "clearing"\nreserve_prices = { cpu = 2 }\n'
        '[market.b]\nstrategy = "paper"\n'
    ).priced_markets()
    assert isinstance(first, scheduler.MarketRules)
    assert (first.name, first.clusters) == ("a", frozenset({3}))
    assert first.pricing == Pricing(rule=PriceRule.CLEARING, reserve={"cpu": 2.0})
    assert (second.name, second.clusters, second.strategy) == ("b", None, "paper")


def test_the_sections_are_the_schedulers_own_types() -> None:
    """Rhythm and money need no conversion, and have the same defaults."""
    config = Config()
    assert isinstance(config.period, scheduler.Rhythm)
    for entry in fields(scheduler.Rhythm):
        assert getattr(config.period, entry.name) == getattr(scheduler.Rhythm(), entry.name)
    assert asdict(config.money) == asdict(currency.MoneySettings())
    (market,) = config.priced_markets()
    assert market.strategy_settings == market.entry.defaults
    for entry in fields(scheduler.MarketRules):
        if entry.name not in {"pricing", "strategy_settings"}:
            assert getattr(market, entry.name) == getattr(scheduler.MarketRules(), entry.name)


@pytest.mark.parametrize("name", list(STRATEGIES))
def test_every_setting_of_a_strategy_is_a_key(name: str) -> None:
    """Prices are excepted, because they belong to the market."""
    settings = STRATEGIES[name].settings
    names = {setting.name for setting in settings_of(settings, frozenset({"pricing"}))}
    assert names == {entry.name for entry in fields(settings)} - {"pricing"}


@pytest.mark.parametrize(
    ("url", "resolved"),
    [
        ("sqlite:///merkat.db", "sqlite:////srv/merkat/merkat.db"),
        ("sqlite:////var/m.db", "sqlite:////var/m.db"),
        ("sqlite://", "sqlite://"),
        ("sqlite:///:memory:", "sqlite:///:memory:"),
        ("mysql+pymysql://u@h/db", "mysql+pymysql://u@h/db"),
    ],
)
def test_an_sqlite_file_is_in_the_state_directory(url: str, resolved: str) -> None:
    """An absolute path and other servers' URLs stay unchanged."""
    config = parse(f'daemon.state_directory = "/srv/merkat"\ndatabase.url = "{url}"')
    assert config.database_url == resolved


def test_paths_start_at_the_state_directory_or_at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tilde is the home of the daemon's user."""
    monkeypatch.setenv("HOME", "/home/one")
    config = parse("")
    assert config.control_socket == Path("/home/one/.local/state/merkat/control.sock")
    assert config.auth_file == Path("/home/one/.one/one_auth")


def test_markets_have_names_of_clusters_and_bids_by_group() -> None:
    """Names are no ids, and a market that lists any does not get the remaining clusters."""
    text = """
        [market.gpu]
        cluster_names = ["gpu", "big"]
        group_bids = { students = { cpu = 0.5 }, staff = { cpu = 4, memory = 2.0 } }
        [market.rest]
    """
    gpu, rest = parse(text).priced_markets()
    assert gpu.cluster_names == frozenset({"gpu", "big"})
    assert gpu.group_bids == {"students": {"cpu": 0.5}, "staff": {"cpu": 4.0, "memory": 2.0}}
    assert (gpu.has_the_rest, rest.has_the_rest) == (False, True)
    assert parse(to_toml(parse(text))).markets == parse(text).markets


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[market.a]\ngroup_bids = { x = { gpu = 1 } }", "'gpu' is not a resource"),
        ("[market.a]\ngroup_bids = { x = 1 }", "must be a table"),
        (
            '[market.a]\ncluster_names = ["x"]\n[market.b]\ncluster_names = ["x"]',
            "cluster x already belongs to market 'a'",
        ),
    ],
)
def test_invalid_group_bids_and_names_are_errors(text: str, message: str) -> None:
    """The rules are those for ids."""
    with pytest.raises(ConfigError, match=re.escape(message)):
        parse(text)


def test_goods_are_off_unless_they_are_enabled() -> None:
    """Once enabled, each host has the configured amount, and the default bid is 1 each."""
    assert Config().goods.resources == ("cpu", "memory")
    (market,) = Config().priced_markets()
    assert market.default_bid == {"cpu": 1.0, "memory": 1.0}
    text = '[goods]\nnetwork = true\ndisk = true\nhost_network = "10Gbit/s"\nhost_disk = "1GiB/s"'
    config = parse(f"{text}\n[market.a]\ndefault_bid = {{ cpu = 2, disk = 3 }}", "merkatd.toml")
    assert config.goods.resources == ("cpu", "memory", "network", "disk")
    assert config.goods.of_a_host("network") == 10_000.0
    assert config.goods.of_a_host("disk") == 1024.0
    (market,) = config.priced_markets()
    assert market.default_bid == {"cpu": 2.0, "network": 1.0, "disk": 3.0}

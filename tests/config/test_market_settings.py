"""Settings of strategies that differ between markets."""

from dataclasses import fields, replace
from typing import Any, cast

import pytest

from merkatd.config.errors import ConfigError
from merkatd.config.loader import parse
from merkatd.config.reload_rules import changes_at_once
from merkatd.config.setting_schema import Setting, settings_of
from merkatd.config.setting_values import to_toml
from merkatd.placement import STRATEGIES
from merkatd.placement.contract import Charge

TWO = """
[strategy.tabu]
hold = "5m"
n_iter = 30
[market.gold]
clusters = [100]
[market.gold.settings]
hold = "30m"
objective = "error"
[market.silver]
"""


def problems(text: str) -> list[tuple[int | None, str, str]]:
    """Return line, key and message of each problem."""
    with pytest.raises(ConfigError) as raised:
        parse(text)
    return [(each.line, ".".join(each.path), each.message) for each in raised.value.problems]


def test_two_markets_run_one_strategy_with_different_settings() -> None:
    """A market's own keys come first, then those of the strategy, then the defaults."""
    gold, silver = parse(TWO).priced_markets()
    assert (gold.settings_in_force.hold_s, silver.settings_in_force.hold_s) == (1800.0, 300.0)
    assert (gold.settings_in_force.n_iter, silver.settings_in_force.n_iter) == (30, 30)
    assert str(gold.settings_in_force.objective) == "error"
    assert str(silver.settings_in_force.objective) == "shortfall"
    assert gold.settings_in_force.e_max == STRATEGIES["tabu"].defaults.e_max
    assert gold.settings_in_force.pricing == gold.pricing


def test_the_written_file_has_the_changed_keys_alone() -> None:
    """It reads back as the same configuration."""
    config = parse(TWO)
    text = to_toml(config)
    block = text.split("[market.gold.settings]\n")[1].split("\n\n")[0]
    assert sorted(block.splitlines()) == ['hold = "30m"', 'objective = "error"']
    assert "[market.silver.settings]" not in text
    assert parse(text) == config


def test_mistakes_are_named_with_their_lines() -> None:
    """Keys of another strategy, values beyond the range, and prices are mistakes."""
    text = """
[market.gold]
strategy = "paper"
[market.gold.settings]
hold = "30m"
n_iter = -1
pricing = 3
m_max_part = "120%"
"""
    assert [(line, key) for line, key, _ in problems(text)] == [
        (5, "market.gold.settings.hold"),
        (6, "market.gold.settings.n_iter"),
        (7, "market.gold.settings.pricing"),
        (8, "market.gold.settings.m_max_part"),
    ]
    assert problems("[market.gold]\nsettings = 3\n")[0][1] == "market.gold.settings"


def test_keys_of_an_unknown_strategy_are_not_judged() -> None:
    """Only the strategy's name is reported."""
    text = '[market.gold]\nstrategy = "tabo"\n[market.gold.settings]\nhol = "30m"\n'
    assert [key for _, key, _ in problems(text)] == ["market.gold.strategy"]


def test_a_reload_applies_a_markets_settings() -> None:
    """They need no restart, unless they belong to a strategy that does."""
    present = parse(TWO)
    new = parse(TWO.replace('"30m"', '"1h"'))
    changes = changes_at_once(present, new)
    assert (changes.changed, changes.restart) == (("market.gold.settings.hold",), ())
    assert changes.config == new
    other = TWO.replace("[market.gold.settings]", 'strategy = "paper"\n[market.gold.settings]')
    other = other.replace('hold = "30m"\nobjective = "error"', "n_iter = 7")
    changes = changes_at_once(present, parse(other))
    assert changes.changed == ()
    assert {*changes.restart} == {
        "market.gold.strategy",
        "market.gold.settings.hold",
        "market.gold.settings.n_iter",
        "market.gold.settings.objective",
    }
    assert changes.config == present


def line_of(name: str, setting: Setting, value: float) -> str:
    """Return a section of the strategy with one key."""
    text = setting.hint(value) if setting.unit is None else f'"{setting.unit.write(value)}"'
    return f"[strategy.{name}]\n{setting.key} = {text}\n"


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_key_has_the_range_that_the_strategy_declares(name: str) -> None:
    """The ends of the range are accepted and what lies beyond is not."""
    kind = STRATEGIES[name].settings
    keys = {setting.name: setting for setting in settings_of(kind, frozenset({"pricing"}))}
    numbers = [each for each in fields(kind) if "parameter" in each.metadata]
    for each in numbers:
        setting, described = keys[each.name], each.metadata["parameter"]

        for value in (described.least, described.most):
            read = parse(line_of(name, setting, value)).strategies[name]
            assert getattr(read, each.name) == value
        assert problems(line_of(name, setting, described.most + 1))


def test_a_strategy_that_charges_nothing_has_no_reserve_prices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise floors would cost something."""
    assert parse("").priced_markets()[0].pricing.reserve["cpu"] > 0
    free = replace(STRATEGIES["tabu"], charges=Charge.NONE)
    monkeypatch.setitem(cast("dict[str, Any]", STRATEGIES), "tabu", free)
    assert parse("").priced_markets()[0].pricing.reserve == {}

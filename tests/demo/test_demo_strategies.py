"""The demo runs with every strategy, also with a new one in a file."""

import re
from pathlib import Path
from typing import Any, cast

import pytest

from merkatd.commands.programs.strategy_files import (
    StrategyFileError,
    names_or_files,
    strategy_of,
)
from merkatd.demo.demo_options import DemoOptions
from merkatd.placement import STRATEGIES
from tests.demo.programs import started
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs/strategies.md").read_text(encoding="utf-8")
EXAMPLE = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[1]
OWN = """
from dataclasses import dataclass, replace
from typing import Any

from merkatd.placement import STRATEGIES, StrategyEntry
from merkatd.placement.contract import UNLIMITED_MOVES, Allocation, Charge


@dataclass(frozen=True, slots=True, kw_only=True)
class NoSettings:
    pass


def own(snapshot: Any, settings: Any, memory: Any, random: Any) -> Any:
    made = STRATEGIES["pack"].strategy(snapshot, STRATEGIES["pack"].defaults, {}, random)
    return replace(made, prices=0 * made.prices)


STRATEGY = StrategyEntry(
    "own", "it states what VMs get", NoSettings, own,
    moves=UNLIMITED_MOVES, allocates=Allocation.OWN, charges=Charge.NONE,
)
"""


@pytest.mark.parametrize("strategy", ["groups", "busiest.py", "own.py"])
def test_a_demo_runs_with_each_kind_of_strategy(strategy: str, tmp_path: Path) -> None:
    """Of shares at a price, of used CPU, and of amounts that it states itself."""
    (tmp_path / "busiest.py").write_text(EXAMPLE)
    (tmp_path / "own.py").write_text(OWN)
    name = str(tmp_path / strategy) if strategy.endswith(".py") else strategy
    words = ("--plain", "--seconds", "120", "--seed", "3", "--strategy", name)
    with started(tmp_path, *words) as demo:
        demo.until("gus arrives with 4 VMs")
        demo.until("period 7: ")
        demo.interrupt()
        assert demo.end() == 0
        text = demo.rest()
    assert "Results of each tenant" in text
    assert "is refused" not in text
    assert ("all of them to run, or none" in text) == (strategy == "busiest.py")


def test_a_market_without_orders_gets_none() -> None:
    """Only shares at a price can be bought with a limit."""
    assert DemoOptions().takes_orders
    assert not DemoOptions(strategy="groups").takes_orders


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("STRATEGY = 3", "STRATEGY must be a StrategyEntry \\(got 3\\)"),
        ("", "STRATEGY must be a StrategyEntry \\(got None\\)"),
        ("import nothing_of_this_name", "ModuleNotFoundError: No module named"),
        ("def (", "SyntaxError"),
        (
            "from merkatd.placement import STRATEGIES\nSTRATEGY = STRATEGIES['pack']",
            "there is already a strategy 'pack'",
        ),
    ],
)
def test_a_wrong_file_is_refused_with_the_reason(tmp_path: Path, text: str, problem: str) -> None:
    """The registry stays as it is."""
    path = tmp_path / "wrong.py"
    path.write_text(text)
    known = dict(STRATEGIES)
    assert str(path) in names_or_files()
    with pytest.raises(StrategyFileError, match=problem):
        strategy_of(str(path))
    assert known == STRATEGIES


def test_a_file_or_a_name_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    """A file that exists adds its strategy under its own name."""
    with pytest.raises(StrategyFileError, match="there is no such file"):
        strategy_of(str(tmp_path / "none.py"))
    assert "magic" not in names_or_files()
    path = tmp_path / "any_name.py"
    path.write_text(EXAMPLE)
    try:
        assert strategy_of(str(path)) == "busiest"
    finally:
        cast("dict[str, Any]", STRATEGIES).pop("busiest", None)

"""The page of strategies: what each declares, its settings by market, what markets lack."""

from merkatd.placement.contract import IN_WORDS
from merkatd.service.strategies import (
    StrategyMoves,
    StrategyNeed,
    StrategySetting,
    StrategyView,
)
from merkatd.web.base.responses import PageResponse
from merkatd.web.base.routes import PageRequest, route
from merkatd.web.layout.html import Markup, Part, element
from merkatd.web.layout.page_frame import page_in_frame, panel
from merkatd.web.layout.widgets import NONE, facts, table

_STATES = {
    True: ("filled", "good"),
    False: ("missing", "bad"),
    None: ("not known before the first period", "warn"),
}


@route("GET", "/strategies", admin=True)
async def strategies(request: PageRequest) -> PageResponse:
    """Return the page of all strategies; those that a market runs come first."""
    every = request.house.strategies.strategies(request.caller)
    return await page_in_frame(
        request,
        "Strategies",
        element("h1", "Strategies"),
        [_panel(each) for each in sorted(every, key=lambda each: not each.markets)],
    )


def _panel(strategy: StrategyView) -> Markup:
    about: list[tuple[str, Part]] = [
        ("Markets", ", ".join(strategy.markets) or "none"),
        *((name.capitalize(), words[getattr(strategy, name)]) for name, words in IN_WORDS.items()),
        *((f"Needs {need.name}", _need(need)) for need in strategy.needs),
        *((_migrates(moves), _limits(strategy, moves)) for moves in strategy.moves),
    ]
    return panel(
        f"{strategy.name}: {strategy.summary}",
        facts(about),
        table(
            f"Settings of {strategy.name}",
            (
                "Key",
                "Value",
                "Default",
                "Least",
                "Most",
                "Unit",
                "A tuner may change it",
                "Meaning",
            ),
            [_row(setting) for setting in strategy.settings],
            nothing="It has no settings.",
        ),
    )


def _migrates(moves: StrategyMoves) -> str:
    return f"Migrates in market {moves.market}" if moves.market else "Migrates"


def _limits(strategy: StrategyView, moves: StrategyMoves) -> str:
    keys = f" (from {', '.join(strategy.moves_by)})" if strategy.moves_by else ""
    return f"{moves.words}{keys}"


def _need(need: StrategyNeed) -> list[Part]:
    text, kind = _STATES[need.filled]
    where = f" in market {', '.join(need.lacking)}" if need.lacking else ""
    return [element("span", text, class_=f"badge {kind}"), f"{where} (from {need.source})"]


def _row(setting: StrategySetting) -> tuple[Part, ...]:
    return (
        setting.key,
        _values(setting),
        setting.default,
        setting.least or NONE,
        setting.most or NONE,
        setting.unit or NONE,
        "yes" if setting.tunable else "no",
        setting.meaning,
    )


def _values(setting: StrategySetting) -> Part:
    """Return the value of all markets, or that of each if they differ."""
    if len(set(setting.values.values())) > 1:
        return ", ".join(f"{market}: {value}" for market, value in setting.values.items())
    return next(iter(setting.values.values()), NONE)

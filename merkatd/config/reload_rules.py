"""The effect of a reload: which keys apply from the next period on, and which need a restart."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from merkatd.config.configuration import Config
from merkatd.config.errors import KeyPath
from merkatd.config.setting_values import sections

_LIVE = ("acting", "period", "limits", "money", "failures", "strategy", "market")
"""Sections that apply from the next period on, with their subsections."""
_ALSO_LIVE = (("daemon", "log_level"),)
_FIXED = (("limits", "cpu", "quota_period"),)
"""Exceptions in live sections: the daemon reads hosts' limits in this unit."""
_FIXED_OF_MARKETS = ("strategy",)
"""Exceptions in markets: the strategy that decided a period also charges it."""


@dataclass(frozen=True, slots=True)
class ReloadEffect:
    """The effect of a new configuration on the running daemon."""

    config: Config
    """The configuration in force from now on."""
    changed: tuple[str, ...]
    """The changed keys that apply from the next period on."""
    restart: tuple[str, ...]
    """The changed keys that apply only after a restart."""


def changes_at_once(present: Config, new: Config) -> ReloadEffect:
    """Return the present configuration, changed by all new values that need no restart."""
    before, after = _keys(present), _keys(new)
    different = sorted(
        path for path in before.keys() | after.keys() if before.get(path) != after.get(path)
    )
    same_markets = tuple(present.markets) == tuple(new.markets)
    later = [
        ("market", name, "settings")
        for name, market in new.markets.items()
        if same_markets and market.strategy != present.markets[name].strategy
    ]
    live = {path for path in different if _is_live(path, same_markets) and path[:3] not in later}
    changed = [path for path in different if path in live]
    restart = [path for path in different if path not in live]
    return ReloadEffect(
        config=replace(
            present,
            daemon=replace(present.daemon, log_level=new.daemon.log_level),
            acting=new.acting,
            period=new.period,
            limits=_with_fixed_period(present, new),
            money=new.money,
            failures=new.failures,
            strategies=new.strategies,
            markets=_markets(present, new) if same_markets else present.markets,
        ),
        changed=tuple(map(_text, changed)),
        restart=tuple(map(_text, restart)),
    )


def _keys(config: Config) -> Mapping[KeyPath, Any]:
    """Return the value of each key."""
    return {
        (*path, setting.key): getattr(section, setting.name)
        for path, section, settings in sections(config)
        for setting in settings
    }


def _is_live(path: KeyPath, same_markets: bool) -> bool:
    if path[0] == "market":
        return same_markets and path[-1] not in _FIXED_OF_MARKETS
    return path in _ALSO_LIVE or (path[0] in _LIVE and path not in _FIXED)


def _with_fixed_period(present: Config, new: Config) -> Any:
    cpu = replace(new.limits.cpu, quota_period_us=present.limits.cpu.quota_period_us)
    return replace(new.limits, cpu=cpu)


def _markets(present: Config, new: Config) -> Mapping[str, Any]:
    return {
        name: _with_same_strategy(present.markets[name], market)
        for name, market in new.markets.items()
    }


def _with_same_strategy(present: Any, new: Any) -> Any:
    """Return the new market; settings of another strategy wait for the restart, too."""
    if new.strategy == present.strategy:
        return new
    return replace(new, strategy=present.strategy, settings=present.settings)


def _text(path: KeyPath) -> str:
    return ".".join(map(str, path))

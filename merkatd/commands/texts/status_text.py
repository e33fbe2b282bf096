"""The daemon's state in sentences: since when it runs, what it manages, what is wrong."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from merkatd.base.hourly_prices import price_text
from merkatd.base.quantities import duration_text, time_text
from merkatd.commands.terminal.screen_text import plain, wrapped

MODES = {
    "dry": "decisions are shown, not carried out",
    "shadow": "decisions are only compared with another scheduler's (`merkatd shadow`)",
    "ask": "VMs are placed, moved and suspended after you approve (`merkatd plan show`)",
    "on": "all decisions are carried out",
}
"""The meaning of each mode."""
_SHOWN = 10
"""The most lines about problems of one kind."""


def status_lines(status: Any, cells: int | None) -> Sequence[str]:
    """Return the sentences about a daemon. Keys may be missing: older daemons send fewer."""
    sentences = [
        *_running(status),
        _latest_period(status),
        *_managed(status),
        *_books(status),
        *_changed_by_others(status),
        *_problems(status),
    ]
    lines = [line for text in sentences for line in wrapped(plain(text), cells, "", "  ")]
    prices = list(_prices(status))
    return [*lines, "", *prices] if prices else lines


def _running(status: Any) -> Iterator[str]:
    started_s, mode = status.get("started_s"), str(status["mode"])
    since = ""
    if started_s is not None:
        ran_s = max(status["now_s"] - started_s, 0.0)
        since = f" for {duration_text(ran_s)}, since {time_text(started_s)},"
    yield f"The daemon has been running{since} in mode {mode}: {MODES.get(mode, mode)}."
    if status["paused"]:
        text = "It is paused: no period starts until `merkatd resume`"
        ordered = [order for order in status.get("orders", ()) if order["what"] == "pause"]
        yield f"{text}. {_by(ordered[0])}" if ordered else f"{text}."
    if status["standby"]:
        yield f"It is on standby: {status['standby']}."
    if status.get("waiting_plan") is not None:
        yield (
            f"Plan {status['waiting_plan']} waits for approval (`merkatd plan show`,"
            " `merkatd plan approve`)."
        )
    if status["configuration"]:
        yield f"The newest configuration is not in force: {status['configuration']}"


def _by(order: Mapping[str, Any]) -> str:
    return f"{order['who']} ordered this at {time_text(order['at_s'])}."


def _latest_period(status: Any) -> str:
    rhythm = f"A period starts every {duration_text(status['interval_s'])}."
    if status["period"] is None:
        text = "No period has ended yet."
    else:
        ago_s = max(status["now_s"] - status["at_s"], 0.0)
        text = (
            f"Period {status['period']} ended {duration_text(ago_s)} ago, at"
            f" {time_text(status['at_s'])}."
        )
    if status["failures"]:
        count = int(status["failures"])
        text += f" {_counted(count, 'period')} failed since then: the daemon's log says why."
    return f"{text} {rhythm}"


def _managed(status: Any) -> Iterator[str]:
    under_way = int(status["outstanding_steps"])
    steps = (
        f"{_counted(under_way, 'step')} {'is' if under_way == 1 else 'are'} under way"
        if under_way
        else "no step is under way"
    )
    if status["hosts"] is not None:
        hosts, vms = _counted(status["hosts"], "host"), _counted(status["vms"], "VM")
        yield f"It manages {hosts} and {vms}; {steps}."
    for order in status.get("orders", ()):
        if order["what"] == "drain":
            name = status.get("host_names", {}).get(str(order["host"]), order["host"])
            text = "is drained: it takes no VMs until `merkatd host undrain`"
            yield f"Host {name} {text}. {_by(order)}"


def _books(status: Any) -> Iterator[str]:
    if status["accounts_sound"]:
        yield "The books balance: all accounts of the ledger add up to zero."
    else:
        yield "The books DO NOT balance: the accounts of the ledger do not add up to zero."


def _changed_by_others(status: Any) -> Iterator[str]:
    drift = int(status["drift"])
    if drift:
        yield (
            f"Other programs changed {_counted(drift, 'limit')} on hosts since the daemon started;"
            " the daemon sets them again."
        )
    if status.get("others"):
        yield f"Placed by others: {status['others']}"
    if not drift and not status.get("others"):
        yield "Other programs changed nothing that the daemon manages."


def _problems(status: Any) -> Iterator[str]:
    """Yield a sentence for each problem."""
    for key, what in _PROBLEMS:
        yield from _some([what.format(name, why) for name, why in status.get(key, {}).items()])
    for kind, failed in status.get("unattended", {}).items():
        yield from _some([f"Not managed: {kind} {number}: {why}" for number, why in failed.items()])
    if status.get("clock_ahead_s"):
        ahead = duration_text(status["clock_ahead_s"])
        yield f"Clock in doubt: it is {ahead} ahead; no deadline takes effect yet."


def _some(sentences: Sequence[str]) -> list[str]:
    more = len(sentences) - _SHOWN
    return [*sentences[:_SHOWN], *([f"({more} more; --json lists all)"] if more > 0 else [])]


_PROBLEMS = (
    ("hosts_away", "Host away: {}: {}"),
    ("quarantined", "In quarantine: period {}: {}"),
    ("hosts_in_error", "Host in error: {}: {}"),
    ("host_attributes", "Host attribute: {}: {}"),
    ("failed_strategies", "Strategy fails: {}: nothing is placed or moved: {}"),
    ("removed_users", "User removed: {}: {}"),
    ("retired_tenants", "Tenant retired: {}: {}"),
)


def _prices(status: Any) -> Iterator[str]:
    for market, prices in (status["prices"] or {}).items():
        for resource, price in prices.items():
            text = price_text(price, resource, status["interval_s"])
            yield plain(f"{'price of ' + resource:18} {text} in market {market}")


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"

"""One frame of `merkatd top`: an overview in, lines for a screen of this size out."""

from collections.abc import Mapping, Sequence
from typing import Any

from merkatd.commands.bid import RESOURCES
from merkatd.commands.list_tables import VMS
from merkatd.commands.log import TABLE as STEPS
from merkatd.commands.output import rows_of
from merkatd.commands.table import to_text
from merkatd.commands.table.columns import present
from merkatd.commands.table.screen import cut, padded, plain
from merkatd.commands.table.spark import spark

STEPS_SHOWN = 5
_NAME = 14
_LEAST_BAR, _LARGEST_BAR = 6, 40
_VM_COLUMNS = (
    "ID,NAME,STATE,HOST,BID_CPU,CPU,CAP_CPU,BID_MEMORY,MEMORY,BID_NETWORK,NETWORK,BID_DISK,DISK,"
    "RATE,COST,ERROR,MESSAGE"
)
_STEP_COLUMNS = "PERIOD,KIND,VM,HOST,STATE,REASON"


def frame(overview: Any, cells: int, lines: int | None, order: str = "cost") -> list[str]:
    """Status, prices, hosts as bars, VMs with the most first, the last decisions.

    No line is wider than `cells`; where `lines` is given, there are at most so many.
    """
    found = [_status(overview["status"]), *_prices(rows_of(overview["price"]))]
    hosts, steps = rows_of(overview["hosts"]), rows_of(overview["steps"])[:STEPS_SHOWN]
    vms = sorted(rows_of(overview["vms"]), key=lambda vm: -(vm[order] or 0))
    if not overview["price"]:
        return [cut(plain(line), cells) for line in [*found, "", "There was no period yet."]]
    bottom = _steps(steps, cells)
    room = None if lines is None else max(lines - len(found) - len(bottom), 6)
    host_rows = len(hosts) if room is None else min(len(hosts), max(room // 3, 2))
    found += ["", *_hosts(hosts[:host_rows], cells), *_more(len(hosts) - host_rows, "hosts")]
    vm_rows = len(vms) if lines is None else max(lines - len(found) - len(bottom) - 3, 1)
    found += ["", *_vms(vms[:vm_rows], cells), *_more(len(vms) - vm_rows, "VMs")]
    found += bottom
    return [cut(plain(line), cells) for line in (found if lines is None else found[:lines])]


def _status(status: Mapping[str, Any]) -> str:
    parts = [f"merkatd  period {_or_dash(status['period'])}"]
    if status["hosts"] is not None:
        parts.append(f"{status['hosts']} hosts, {status['vms']} VMs")
    parts.append(f"{status['outstanding_steps']} steps under way")
    if status["failures"]:
        parts.append(f"{status['failures']} PERIODS FAILED")
    if status["mode"] != "on":
        parts.append(f"MODE {status['mode'].upper()}")
    if status["paused"]:
        parts.append("PAUSED")
    if not status["accounts_sound"]:
        parts.append("ACCOUNTS UNSOUND")
    return "   ".join(parts)


def _prices(prices: Sequence[Mapping[str, Any]]) -> list[str]:
    markets = {row["market"] for row in prices}
    return [
        f"{'' if len(markets) == 1 else plain(row['market']) + ' '}{row['resource']:7}"
        f" {'none clears' if row['price'] is None else format(row['price'], '<11.6g')}"
        f" {spark(row['trend'])}"
        for row in prices
    ]


def _hosts(hosts: Sequence[Mapping[str, Any]], cells: int) -> list[str]:
    """A bar a resource: what is given of what there is."""
    sold = [name for name in RESOURCES if any(host.get(name) is not None for host in hosts)]
    shown = [name for name in RESOURCES if name in {"cpu", "memory", *sold}]
    room = cells - _NAME - 11 - 19 * len(shown)
    bar = min(max(room // len(shown), _LEAST_BAR), _LARGEST_BAR)
    wide = bar + 7
    heads = [f"{name.upper():{wide}}" for name in shown]
    bids = [f"BIDS_{name[:3].upper()}" for name in shown]
    lines = [f"{'HOST':{_NAME}} STAT  VMS  {'  '.join([*heads, *bids])}"]
    for host in hosts:
        name = padded(cut(plain(host["name"]), _NAME), _NAME, right=False)
        bars = "  ".join(_bar(host[f"given_{resource}"], host[resource], bar) for resource in shown)
        offers = "  ".join(format(host[f"bids_{resource}"], "8.4g") for resource in shown)
        lines.append(f"{name} {host['state']:4} {host['vms']:4}  {bars}  {offers}")
    return lines


def _bar(given: float, capacity: float | None, cells: int) -> str:
    part = given / capacity if capacity else 0.0
    full = round(min(part, 1.0) * cells)
    return f"[{'|' * full}{' ' * (cells - full)}] {100 * min(part, 9.99):3.0f}%"


def _vms(vms: Sequence[Mapping[str, Any]], cells: int) -> list[str]:
    columns = present(VMS.chosen(_VM_COLUMNS), vms)
    return to_text(columns, vms, cells)


def _steps(steps: Sequence[Mapping[str, Any]], cells: int) -> list[str]:
    if not steps:
        return []
    return ["", *to_text(STEPS.chosen(_STEP_COLUMNS), steps, cells)]


def _more(count: int, what: str) -> list[str]:
    return [f"({count} more {what})"] if count > 0 else []


def _or_dash(value: object) -> str:
    return "-" if value is None else str(value)

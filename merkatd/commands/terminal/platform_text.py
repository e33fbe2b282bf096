"""The text about a platform: its state, progress, credits, VMs and last actions."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

from merkatd.base.quantities import credits_text, duration_text, time_text
from merkatd.commands.terminal.screen_text import wrapped

_SOLD = {"cpu": ("a core", 100.0), "memory": ("a GiB", 1024.0)}
"""The unit in which the output states a price, and its size in units of the good."""
_UNCHANGED = "Its VMs and their bids stay unchanged; `merkatd platform stop` ends them."
_OVER = frozenset({"done", "cancelled", "failed"})


def platform_lines(answer: Any, cells: int | None) -> Sequence[str]:
    """Return the lines about a platform: state, progress, credits, VMs and last actions."""
    lines: list[str] = []
    for text in _texts(answer):
        lines += wrapped(text, cells)
    if answer["vms"]:
        lines.append("")
        for vm in answer["vms"]:
            lines += wrapped(_vm(vm), cells, "  ", "    ")
    if answer["actions"]:
        lines += ["", "Last actions:"]
        for action in answer["actions"]:
            lines += wrapped(_action(action), cells, "  ", "    ")
    return lines


def _texts(platform: Any) -> Iterator[str]:
    why = f": {platform['why']}" if platform["why"] else ""
    yield (
        f"Platform {platform['id']} ({platform['name']}) of tenant {platform['owner']} is"
        f" {platform['state']}{why}."
    )
    if platform["held"] and platform["state"] not in _OVER:
        yield "An order suspended it: `merkatd platform resume` continues it."
    if platform["state"] in _OVER:
        spent = f"Spent {_amount(platform['spent'])} of {_amount(platform['budget'])} credits"
        yield f"{spent}; the rest returned to its tenant."
        if platform["needs"]:
            yield f"It would have needed: {platform['needs']}."
        return
    if platform.get("unattended"):
        yield f"The daemon fails to manage it: {platform['unattended']}. {_UNCHANGED}"
    if trouble := platform["trouble"]:
        yield f"Its controller fails: {trouble}. Its VMs bid nothing until it works again."
    yield from _track(platform)
    if platform.get("declares"):
        yield f"Declared {platform['declares']}; {platform['declared_state']}."
    money = f"Spent {_amount(platform['spent'])} credits, {_amount(platform['balance'])} left"
    yield f"{money} of {_amount(platform['budget'])}{_refill(platform)}."
    yield from _market(platform)
    if platform["takes"]:
        yield f"Missing for a start or resumption now: {platform['takes']}."


def _market(platform: Any) -> Iterator[str]:
    if platform["prices"]:
        prices = ", ".join(_price(name, price) for name, price in platform["prices"].items())
        yield f"Prices per period in market {platform['market']} now: {prices}."
    if platform["full_cost"] is not None:
        has_bids = platform["vms"] and platform["limit"] is None
        bids = f"; they bid {_amount(platform['bids'])}" if has_bids else ""
        cost = f"{_amount(platform['full_cost'])} credits a period at these prices{bids}"
        yield f"The most that its VMs can use costs {cost}."
    if platform["limit"] is not None:
        pays = f", and pays {_amount(platform['order_cost'])}" if platform["order_cost"] else ""
        starts = platform["limit_to_start"]
        pays = pays if starts is None else f"; it would start with {_amount(starts)}"
        yield f"Its limit order may cost {_amount(platform['limit'])} credits a period{pays}."


def _track(platform: Any) -> Iterator[str]:
    if platform["deadline_s"] is not None:
        yield f"Deadline {time_text(platform['deadline_s'])}."
    if platform["on_track"] is not None:
        track = "On track" if platform["on_track"] else "NOT on track"
        slack = platform["slack_s"]
        if slack is not None:
            side = "before" if slack >= 0 else "after"
            track += f": expected to end {duration_text(abs(slack))} {side} its deadline"
        yield f"{track}."
    if platform["done"] is not None:
        yield f"{platform['done']:.1%} of its work is done."
    if platform["performance"] is not None:
        goal = f", goal {platform['reference']:.4g}" if platform["reference"] is not None else ""
        yield f"Performance {platform['performance']:.4g}{goal}."
    if platform["report"]:
        yield f"Its controller reports: {platform['report']}"


def _refill(budget: Any) -> str:
    return (
        f", plus {_amount(added)} at each replenishment"
        if (added := budget["replenishment"])
        else ""
    )


def _vm(vm: Any) -> str:
    head = f"VM {vm['vm']} in {vm['cluster']}: {vm['state']}"
    if vm["leaving"]:
        head += ", about to end"
    if vm.get("cpu") is None or vm["state"] not in {"running", "busy"}:
        return head
    return (
        f"{head}, gets {vm['cpu']:.0f} % of a core, bidding {_amount(vm['bid_cpu'])},"
        f" and {vm['memory']:.0f} MiB, bidding {_amount(vm['bid_memory'])}"
    )


def _action(action: Any) -> str:
    what = f"{action['what']}{' REFUSED' if action['refused'] else ''}"
    text = f": {action['text']}" if action["text"] else ""
    return f"{time_text(action['at_s'])}  {action['who']}: {what}{text}"


def _price(name: str, price: float | None) -> str:
    unit, size = _SOLD.get(name, (name, 1.0))
    return f"{unit} {'unavailable' if price is None else _amount(price * size)}"


def _amount(value: float) -> str:
    """Return an amount of credits as text, without an exponent however small it is."""
    return format(Decimal(f"{value:.4g}"), "f") if abs(value) < 1000 else credits_text(value)

"""A platform in words, for a screen."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

from merkatd.commands.table.columns import credits_text, time_text
from merkatd.commands.wrapping import wrapped

_SOLD = {"cpu": ("a core", 100.0), "memory": ("a GiB", 1024.0)}
"""What people call so many units."""
_AS_THEY_ARE = "Its VMs and their bids stay as they are; `merkatd platform stop` ends them."
_UNITS = (("d", 86_400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0))


def lines_of(answer: Any, cells: int | None) -> Sequence[str]:
    """What it is, how it fares, what it has, what it would take, what was done last."""
    lines: list[str] = []
    for text in _texts(answer):
        lines += wrapped(text, cells)
    if answer["vms"]:
        lines.append("")
        for one in answer["vms"]:
            lines += wrapped(_vm(one), cells, "  ", "    ")
    if answer["actions"]:
        lines += ["", "Last actions:"]
        for one in answer["actions"]:
            lines += wrapped(_action(one), cells, "  ", "    ")
    return lines


def _texts(one: Any) -> Iterator[str]:
    why = f": {one['why']}" if one["why"] else ""
    yield f"Platform {one['id']} ({one['name']}) of tenant {one['owner']} is {one['state']}{why}."
    if one["held"] and one["state"] not in _OVER:
        yield "Its tenant suspended it: it waits to be resumed."
    if one["state"] in _OVER:
        spent = f"Spent {_amount(one['spent'])} of {_amount(one['budget'])} credits"
        yield f"{spent}; the rest went back."
        if one["needs"]:
            yield f"What it would have taken: {one['needs']}."
        return
    if one.get("unattended"):
        yield f"The daemon fails to look after it: {one['unattended']}. {_AS_THEY_ARE}"
    if one["trouble"]:
        yield f"Its controller fails: {one['trouble']}. Its VMs bid nothing until it works again."
    yield from _track(one)
    money = f"Spent {_amount(one['spent'])} credits, {_amount(one['balance'])} left"
    yield f"{money} of {_amount(one['budget'])}{_refill(one)}."
    yield from _market(one)
    if one["takes"]:
        yield f"What it would take: {one['takes']}."


def _market(one: Any) -> Iterator[str]:
    if one["prices"]:
        prices = ", ".join(_price(name, price) for name, price in one["prices"].items())
        yield f"Prices now, of a period in market {one['market']}: {prices}."
    if one["full_cost"] is not None:
        bids = f"; they bid {_amount(one['bids'])}" if one["vms"] else ""
        cost = f"{_amount(one['full_cost'])} credits a period at these prices{bids}"
        yield f"All that its VMs can use costs {cost}."


def _track(one: Any) -> Iterator[str]:
    if one["deadline_s"] is not None:
        yield f"Deadline {time_text(one['deadline_s'])}."
    if one["on_track"] is not None:
        said = "On track" if one["on_track"] else "NOT on track"
        slack = one["slack_s"]
        if slack is not None:
            side = "before" if slack >= 0 else "after"
            said += f": done {_lasting(abs(slack))} {side} its deadline as things are"
        yield f"{said}."
    if one["done"] is not None:
        yield f"{one['done']:.1%} of its work is done."
    if one["performance"] is not None:
        wanted = f", {one['reference']:.4g} is wanted" if one["reference"] is not None else ""
        yield f"Performance {one['performance']:.4g}{wanted}."
    if one["report"]:
        yield f"Its controller says: {one['report']}"


def _refill(one: Any) -> str:
    amount = one["replenishment"]
    return f", and {_amount(amount)} more at every replenishment" if amount else ""


def _vm(one: Any) -> str:
    head = f"VM {one['vm']} in {one['cluster']}: {one['state']}"
    if one["leaving"]:
        head += ", to be ended"
    if one.get("cpu") is None or one["state"] not in {"running", "busy"}:
        return head
    return (
        f"{head}, gets {one['cpu']:.0f} % of a core, bidding {_amount(one['bid_cpu'])},"
        f" and {one['memory']:.0f} MiB, bidding {_amount(one['bid_memory'])}"
    )


def _action(one: Any) -> str:
    refused = " REFUSED" if one["refused"] else ""
    text = f": {one['text']}" if one["text"] else ""
    return f"{time_text(one['at_s'])}  {one['who']}: {one['what']}{refused}{text}"


def _lasting(seconds: float) -> str:
    unit, length = next(((u, s) for u, s in _UNITS if seconds >= s), ("s", 1.0))
    return f"{seconds / length:.3g} {unit}"


def _price(name: str, price: float | None) -> str:
    unit, size = _SOLD.get(name, (name, 1.0))
    return f"{unit} {'not to be had' if price is None else _amount(price * size)}"


def _amount(value: float) -> str:
    """Credits, however few, without an exponent."""
    return format(Decimal(f"{value:.4g}"), "f") if abs(value) < 1000 else credits_text(value)


_OVER = frozenset({"done", "cancelled", "failed"})

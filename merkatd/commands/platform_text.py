"""A platform in words, for a screen."""

from collections.abc import Iterator, Sequence
from typing import Any

from merkatd.commands.table.columns import credits_text, time_text
from merkatd.commands.wrapping import wrapped

_UNITS = (("d", 86_400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0))


def lines_of(answer: Any, cells: int | None) -> Sequence[str]:
    """What it is, how it fares, what it has, what it would take, what was done last."""
    lines: list[str] = []
    for text in _texts(answer):
        lines += wrapped(text, cells)
    if answer["vms"]:
        lines.append("")
        lines += [_vm(one) for one in answer["vms"]]
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
    yield from _track(one)
    money = f"Spent {credits_text(one['spent'])} credits, {credits_text(one['balance'])} left"
    yield f"{money} of {credits_text(one['budget'])}{_refill(one)}."
    if one["prices"]:
        prices = ", ".join(f"{name} {_price(price)}" for name, price in one["prices"].items())
        yield f"Prices now (market {one['market']}): {prices} a unit and period."
    if one["takes"]:
        yield f"What it would take: {one['takes']}."


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
        wanted = f", {one['reference']:g} is wanted" if one["reference"] is not None else ""
        yield f"Performance {one['performance']:g}{wanted}."
    if one["report"]:
        yield f"Its controller says: {one['report']}"


def _refill(one: Any) -> str:
    amount = one["replenishment"]
    return f", and {credits_text(amount)} more at every replenishment" if amount else ""


def _vm(one: Any) -> str:
    head = f"  VM {one['vm']} in {one['cluster']}: {one['state']}"
    if one["leaving"]:
        head += ", to be ended"
    if one.get("cpu") is None or one["state"] not in {"running", "busy"}:
        return head
    return (
        f"{head}, gets {one['cpu']:.0f} % of a core for {credits_text(one['bid_cpu'])}"
        f" and {one['memory']:.0f} MiB for {credits_text(one['bid_memory'])}"
    )


def _action(one: Any) -> str:
    refused = " REFUSED" if one["refused"] else ""
    text = f": {one['text']}" if one["text"] else ""
    return f"{time_text(one['at_s'])}  {one['who']}: {one['what']}{refused}{text}"


def _lasting(seconds: float) -> str:
    unit, length = next(((u, s) for u, s in _UNITS if seconds >= s), ("s", 1.0))
    return f"{seconds / length:.3g} {unit}"


def _price(price: float | None) -> str:
    return "not to be had" if price is None else f"{price:.6g}"


_OVER = frozenset({"done", "cancelled", "failed"})

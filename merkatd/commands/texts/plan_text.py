"""The text of a plan: steps with reasons, pending VMs, prices, and the largest errors."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from merkatd.base.hourly_prices import SMALL_UNITS, hourly_unit, price_text
from merkatd.base.quantities import credits_text
from merkatd.commands.terminal import Column, ColumnFormat, to_text
from merkatd.commands.terminal.output import rows_of
from merkatd.commands.terminal.screen_text import plain, wrapped
from merkatd.protocol.control_messages import ON_HOSTS

_ALWAYS = ("deploy", "migrate")


def plan_lines(plan: Any, rows: int, cells: int | None) -> Sequence[str]:
    """Return the lines of a plan, with the `rows` VMs that have the largest error."""
    steps = rows_of(plan["steps"])
    kinds = Counter(str(step["kind"]) for step in steps)
    counted = [*_ALWAYS, *(kind for kind in kinds if kind not in _ALWAYS)]
    summary = ", ".join(f"{kinds[kind]} {kind}" for kind in counted)
    head = f"Period {plan['period']}, strategy {plan['strategy']}: {summary}"
    lines = wrapped(f"{head}; decided in {plan['took_ms']:.1f} ms", cells)
    if "under_way" in plan:
        lines += wrapped(_dry(plan), cells)
    for line in _steps_and_reasons(plan, steps):
        lines += wrapped(plain(line), cells, "  ", " " * 11)
    for name, market in plan["markets"].items():
        prices = ", ".join(
            _price(price, resource, plan.get("interval_s"))
            for resource, price in market["price"].items()
        )
        lines += [
            *wrapped(f"Market {plain(name)}: {prices}", cells, "", "  "),
            _change("shortfall, credits", market, "shortfall"),
            _change("largest error", market, "largest_error"),
        ]
    return lines + _vm_lines(plan, rows, cells)


def _price(price: float | None, resource: str, interval_s: float | None) -> str:
    """Return a price for an hour; of a file, whose periods have no length, for a period."""
    if interval_s is not None:
        return f"{resource} {price_text(price, resource, interval_s)}"
    if price is None:
        return f"{resource} no price clears the market"
    large = price * SMALL_UNITS.get(resource, 1.0)
    unit = hourly_unit(resource).removesuffix("-hour")
    return f"{resource} {credits_text(large)} credits per {unit} and period"


def _dry(plan: Any) -> str:
    waiting = len(plan["under_way"])
    under_way = f"; {waiting} steps of earlier periods are under way" if waiting else ""
    return f"Dry run: nothing is done or stored{under_way}."


def _steps_and_reasons(plan: Any, steps: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for step in steps:
        yield step_line(step)
    waits = {str(vm["id"]) for vm in rows_of(plan["vms"]) if vm["waits"] and vm["host"] is None}
    for vm, reason in _by_id(plan["reasons"]):
        yield f"{'pending' if vm in waits else 'note':8} VM {vm}: {reason}"
    for vm, message in _by_id(plan["messages"]):
        yield f"message  VM {vm}: {message}"
    for wish in plan["wishes"]:
        whose = f"{wish['replicas']} VMs of application {wish['application']}"
        yield f"wish     {whose}: {wish['reason']}"
    for host, reason in plan["left_hosts"].items():
        yield f"left out a step on host {host}: {reason}"
    for host, reason in plan.get("overfull", {}).items():
        yield f"overfull host {host}: {reason}"


def _by_id(texts: Mapping[str, str]) -> list[tuple[str, str]]:
    return sorted(texts.items(), key=lambda item: int(item[0]))


def step_line(step: Mapping[str, Any]) -> str:
    """Return the line of a step: kind, VM, host, reason, gain, cost, and steps to do before it."""
    where = ""
    if step.get("source") is not None:
        where = f" {step['source']} -> {step['host']}"
    elif step.get("host") is not None:
        where = f" on {step['host']}"
    notes = []
    if step.get("gain") is not None:
        notes.append(f"gains {credits_text(step['gain'])} credits")
    if step.get("moves_mib") is not None:
        notes.append(f"moves {step['moves_mib']:,.0f} MiB")
    if step.get("cost") is not None:
        most = "" if step.get("rate") is None else "at most "
        notes.append(f"costs {most}{credits_text(step['cost'])} credits a period")
    noted = f" ({', '.join(notes)})" if notes else ""
    first = f"; after {', '.join(step['after'])}" if step["after"] else ""
    if step["kind"] in ON_HOSTS:
        whom, where = "host", f" {step['host']}"
    else:
        whom = f"VM {step['vm']}" if step["vm"] >= 0 else "a VM"
    return f"{step['kind']:8} {whom}{where}: {step['reason']}{noted}{first} [{step['id']}]"


def _change(what: str, market: Any, key: str) -> str:
    return f"  {what:20} {market[f'{key}_before']:12.4f} -> {market[f'{key}_after']:.4f}"


def _vm_lines(plan: Any, rows: int, cells: int | None) -> list[str]:
    """Return the table of the VMs with the largest error, with their share of each resource."""
    vms = rows_of(plan["vms"])
    order = sorted(vms, key=lambda vm: -vm["error"])[:rows]
    if not order:
        return []
    columns = [
        Column("VM", "id", ColumnFormat.WHOLE, ""),
        Column("NAME", "name", ColumnFormat.TEXT, "", least=6, optional=True),
        Column("HOST", "host", ColumnFormat.TEXT, "", least=6),
    ]
    for name in plan["resources"]:
        columns += [
            Column(f"FIRST_{name.upper()}", f"first {name}", ColumnFormat.NUMBER, ""),
            Column(name.upper(), f"share {name}", ColumnFormat.NUMBER, ""),
        ]
    columns += [
        Column("ERROR", "error", ColumnFormat.PART, ""),
        Column("ERROR_BEFORE", "error_before", ColumnFormat.PART, ""),
    ]
    lines = to_text(columns, [_flat(vm) for vm in order], cells)
    if len(vms) > len(order):
        lines.append(f"({len(vms) - len(order)} more VMs; --rows N lists more)")
    return lines


def _flat(vm: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row with one key per resource."""
    by_resource = {
        f"{what} {name}": value for what in ("first", "share") for name, value in vm[what].items()
    }
    return {**vm, **by_resource}

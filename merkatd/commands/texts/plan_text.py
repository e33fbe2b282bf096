"""The text of a plan: steps with reasons, pending VMs, prices, and the largest errors."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from merkatd.commands.terminal import Column, ColumnFormat, to_text
from merkatd.commands.terminal.output import rows_of
from merkatd.commands.terminal.screen_text import plain, wrapped

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
            ("no price clears" if price is None else f"{price:.6g}") + f" per unit of {resource}"
            for resource, price in market["price"].items()
        )
        lines += [
            *wrapped(f"Market {plain(name)}: {prices}", cells, "", "  "),
            _change("shortfall, credits", market, "shortfall"),
            _change("largest error", market, "largest_error"),
        ]
    return lines + _vm_lines(plan, rows, cells)


def _dry(plan: Any) -> str:
    waiting = len(plan["under_way"])
    under_way = f"; {waiting} steps of earlier periods are under way" if waiting else ""
    return f"Dry run: nothing is done or stored{under_way}."


def _steps_and_reasons(plan: Any, steps: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for step in steps:
        yield _step_line(step)
    for vm, reason in sorted(plan["reasons"].items(), key=lambda item: int(item[0])):
        yield f"pending  VM {vm}: {reason}"
    for host, reason in plan.get("overfull", {}).items():
        yield f"overfull host {host}: {reason}"


def _step_line(step: Mapping[str, Any]) -> str:
    """Return the line of a step: kind, VM, host, reason, gain, cost, and steps to do before it."""
    where = ""
    if step.get("source") is not None:
        where = f" {step['source']} -> {step['host']}"
    elif step.get("host") is not None:
        where = f" on {step['host']}"
    notes = []
    if step.get("gain") is not None:
        notes.append(f"gains {step['gain']:.4g} credits")
    if step.get("moves_mib") is not None:
        notes.append(f"moves {step['moves_mib']:,.0f} MiB")
    if step.get("cost") is not None:
        most = "" if step.get("rate") is None else "at most "
        notes.append(f"costs {most}{step['cost']:.4g} credits a period")
    noted = f" ({', '.join(notes)})" if notes else ""
    first = f"; after {', '.join(step['after'])}" if step["after"] else ""
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
            Column(f"{name.upper()} FIRST", f"first {name}", ColumnFormat.NUMBER, ""),
            Column("SHARE", f"share {name}", ColumnFormat.NUMBER, ""),
        ]
    columns += [
        Column("ERROR", "error", ColumnFormat.PART, ""),
        Column("BEFORE", "error_before", ColumnFormat.PART, ""),
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

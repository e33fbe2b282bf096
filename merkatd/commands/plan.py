"""`merkatd plan`: what would be done with a cloud, why, and what everybody would get."""

import argparse
import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from merkatd.cluster import Decision, Deploy, Floats, Ints, Migrate, Snapshot
from merkatd.cluster.check import SnapshotError
from merkatd.cluster.compact import from_npz
from merkatd.cluster.json_form import loads
from merkatd.cluster.steps import Step
from merkatd.market.assess import Assessment, assess
from merkatd.placement import STRATEGIES, strategy_named
from merkatd.placement.registry import DEFAULT
from merkatd.placement.warm import warm_up

SUMMARY = "show what would be done with a cloud, and why"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument(
        "--snapshot",
        metavar="FILE",
        required=True,
        help="the cloud, as JSON or in the compact form (.npz); - reads standard input",
    )
    parser.add_argument(
        "--strategy",
        metavar="NAME",
        choices=tuple(STRATEGIES),
        default=DEFAULT,
        help="; ".join(f"{entry.name}: {entry.summary}" for entry in STRATEGIES.values()),
    )
    parser.add_argument("--json", action="store_true", help="print everything as one JSON object")
    parser.add_argument(
        "--rows",
        metavar="N",
        type=_rows,
        default=20,
        help="how many VMs to list, those with the largest error first (default: 20)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Read the snapshot, decide, print."""
    try:
        snapshot = _read(arguments.snapshot)
    except (OSError, SnapshotError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        print(f"merkatd plan: {arguments.snapshot}: {reason}", file=sys.stderr)
        return 1
    answer = _answer(snapshot, arguments.strategy)
    if arguments.json:
        print(json.dumps(_as_json(answer), indent=2, allow_nan=False))
    else:
        print("\n".join(_as_text(answer, arguments.rows)))
    return 0


@dataclass(frozen=True, slots=True)
class Answer:
    """A decision, with what it changes."""

    snapshot: Snapshot
    strategy: str
    decision: Decision
    took_ms: float
    host: Ints
    """[vms]: the host row of each VM once the plan is carried out."""
    before: Assessment
    after: Assessment


def _answer(snapshot: Snapshot, name: str) -> Answer:
    entry = strategy_named(name)
    warm_up(entry)
    begin = time.perf_counter()
    decision = entry.decide(snapshot, np.random.default_rng(snapshot.period))
    took_ms = (time.perf_counter() - begin) * 1e3
    host = snapshot.vms.host.copy()
    for step in decision.plan:
        if isinstance(step, Deploy | Migrate):
            host[snapshot.vm_row(step.vm)] = snapshot.host_row(step.host)
    return Answer(
        snapshot=snapshot,
        strategy=name,
        decision=decision,
        took_ms=took_ms,
        host=host,
        before=assess(snapshot, snapshot.vms.host),
        after=assess(snapshot, host),
    )


def _read(name: str) -> Snapshot:
    data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    if data.startswith(b"PK"):
        return from_npz(data)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise SnapshotError(f"neither JSON in UTF-8 nor a compact snapshot: {error}") from None
    return loads(text)


def _rows(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r}: a whole number from 0 on is right")
    return int(text)


def _as_json(answer: Answer) -> dict[str, Any]:
    snapshot, decision = answer.snapshot, answer.decision
    return {
        "period": snapshot.period,
        "strategy": answer.strategy,
        "took_ms": round(answer.took_ms, 3),
        "steps": [_step(snapshot, step) for step in decision.plan],
        "reasons": {str(vm): reason for vm, reason in decision.reasons.items()},
        "markets": {
            name: {
                "price": _by_resource(snapshot, decision.prices[market]),
                "shortfall_before": float(answer.before.shortfall[market]),
                "shortfall_after": float(answer.after.shortfall[market]),
                "largest_error_before": float(answer.before.largest_error[market]),
                "largest_error_after": float(answer.after.largest_error[market]),
            }
            for market, name in enumerate(snapshot.markets.name)
        },
        "vms": [_vm(answer, row) for row in range(len(snapshot.vms))],
    }


def _step(snapshot: Snapshot, step: Step) -> dict[str, Any]:
    found: dict[str, Any] = {"id": step.id, "kind": step.kind, **asdict(step)}
    del found["period"]
    for role in ("source", "host"):
        if role in found:
            found[role] = _host_name(snapshot, snapshot.host_row(found[role]))
    return found


def _vm(answer: Answer, row: int) -> dict[str, Any]:
    snapshot = answer.snapshot
    return {
        "id": int(snapshot.vms.id[row]),
        "host": _host_name(snapshot, int(answer.host[row])),
        "first": _by_resource(snapshot, answer.after.first[row]),
        "share_before": _by_resource(snapshot, answer.before.shares[row]),
        "share": _by_resource(snapshot, answer.decision.allocations[row]),
        "error_before": float(answer.before.errors[row]),
        "error": float(answer.after.errors[row]),
    }


def _by_resource(snapshot: Snapshot, values: Any) -> dict[str, float | None]:
    """By name; null where there is no finite number, as no price clears an overfull market."""
    return {
        name: float(value) if np.isfinite(value) else None
        for name, value in zip(snapshot.resources, values, strict=True)
    }


def _host_name(snapshot: Snapshot, row: int) -> str | None:
    return None if row < 0 else snapshot.hosts.name[row]


def _as_text(answer: Answer, rows: int) -> list[str]:
    snapshot, decision = answer.snapshot, answer.decision
    kinds = ", ".join(f"{len(decision.plan.of(kind))} {kind.kind}" for kind in (Deploy, Migrate))
    lines = [
        (
            f"Period {snapshot.period}, strategy {answer.strategy}: {kinds};"
            f" decided in {answer.took_ms:.1f} ms"
        ),
        *(_step_line(snapshot, step) for step in decision.plan),
        *(f"  pending  VM {vm}: {reason}" for vm, reason in sorted(decision.reasons.items())),
    ]
    for market, name in enumerate(snapshot.markets.name):
        prices = ", ".join(
            f"{price:.6g} a unit of {resource}"
            for resource, price in zip(snapshot.resources, decision.prices[market], strict=True)
        )
        before, after = answer.before, answer.after
        lines += [
            f"Market {name}: {prices}",
            _change("shortfall, credits", before.shortfall, after.shortfall, market),
            _change("largest error", before.largest_error, after.largest_error, market),
        ]
    return lines + _vm_lines(answer, rows)


def _change(what: str, before: Floats, after: Floats, market: int) -> str:
    return f"  {what:20} {before[market]:12.4f} -> {after[market]:.4f}"


def _step_line(snapshot: Snapshot, step: Step) -> str:
    """One step: what, whom, where, why, and what must come first."""
    where = ""
    if isinstance(step, Migrate):
        source = _host_name(snapshot, snapshot.host_row(step.source))
        where = f" {source} -> {_host_name(snapshot, snapshot.host_row(step.host))}"
    elif isinstance(step, Deploy):
        where = f" on {_host_name(snapshot, snapshot.host_row(step.host))}"
    gain = f" (gains {step.gain:.4g} credits)" if isinstance(step, Migrate) else ""
    first = f"; after {', '.join(step.after)}" if step.after else ""
    return f"  {step.kind:8} VM {step.vm}{where}: {step.reason}{gain}{first} [{step.id}]"


def _vm_lines(answer: Answer, rows: int) -> list[str]:
    """The VMs that lack or exceed most, with what they get of each resource."""
    snapshot = answer.snapshot
    order = np.argsort(-answer.after.errors, kind="stable")[:rows].tolist()
    if not order:
        return []
    head = "".join(f"{name.upper() + ' FIRST':>16}{'SHARE':>12}" for name in snapshot.resources)
    lines = [f"{'VM':>8} {'HOST':16}{head}{'ERROR':>9}{'BEFORE':>9}"]
    for row in order:
        parts = "".join(
            f"{first:16.1f}{share:12.1f}"
            for first, share in zip(
                answer.after.first[row], answer.decision.allocations[row], strict=True
            )
        )
        host = _host_name(snapshot, int(answer.host[row])) or "-"
        lines.append(
            f"{snapshot.vms.id[row]:8} {host:16}{parts}"
            f"{answer.after.errors[row]:9.4f}{answer.before.errors[row]:9.4f}"
        )
    if len(snapshot.vms) > len(order):
        lines.append(f"({len(snapshot.vms) - len(order)} more VMs; --rows N lists more)")
    return lines

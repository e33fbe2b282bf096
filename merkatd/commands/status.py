"""`merkatd status`: how the running daemon is, and its prices."""

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from merkatd.commands.table import Column, Kind, Table
from merkatd.commands.verb import Verb
from merkatd.commands.view import add_view, show_view

TABLE = Table(
    "STATUS",
    (
        Column("PERIOD", "period", Kind.WHOLE, "the latest period that came to its end"),
        Column("TIME", "at_s", Kind.TIME, "when it did"),
        Column("HOSTS", "hosts", Kind.WHOLE, "hosts seen then"),
        Column("VMS", "vms", Kind.WHOLE, "VMs seen then"),
        Column("MODE", "mode", Kind.TEXT, "how much of what is decided is done"),
        Column("PAUSED", "paused", Kind.TEXT, "whether no more periods begin"),
        Column(
            "WAITING_PLAN",
            "waiting_plan",
            Kind.WHOLE,
            "the plan that waits for approval, in mode ask",
            optional=True,
        ),
        Column(
            "CONFIGURATION",
            "configuration",
            Kind.TEXT,
            "why the newest configuration is not in force",
            optional=True,
        ),
        Column("STANDBY", "standby", Kind.TEXT, "why another daemon acts", optional=True),
        Column("FAILURES", "failures", Kind.WHOLE, "periods failed since the last good one"),
        Column(
            "OUTSTANDING", "outstanding_steps", Kind.WHOLE, "steps neither confirmed nor given up"
        ),
        Column("SOUND", "accounts_sound", Kind.TEXT, "whether no credit is lost or too many"),
        Column("DRIFT", "drift", Kind.WHOLE, "limits that others were found to have changed"),
        Column("NEWEST", "newest_period", Kind.WHOLE, "the period begun last", default=False),
        Column("NEWEST_STATE", "newest_state", Kind.TEXT, "how far it came", default=False),
        Column("INTERVAL", "interval_s", Kind.NUMBER, "seconds a period", default=False),
    ),
)


def add_status_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    add_view(parser, {"status": TABLE})


def run_status(arguments: argparse.Namespace) -> int:
    """Ask the daemon on its control socket."""
    return show_view(
        "status",
        arguments,
        TABLE,
        lambda ask: ask("status"),
        rows=lambda answer: [answer],
        text=_text,
        whole=True,
    )


def _text(status: Any, _cells: int | None) -> Sequence[str]:
    lines = [f"{c.name.lower().replace('_', ' '):18} {c.text(status)}" for c in TABLE.columns]
    lines += [f"{what:18} {said}" for what, said in _noticed(status)]
    for market, prices in (status["prices"] or {}).items():
        for resource, price in prices.items():
            said = "none clears" if price is None else f"{price:.6g}"
            lines.append(f"{'price of ' + resource:18} {said} in market {market}")
    return lines


def _noticed(status: Any) -> Iterator[tuple[str, str]]:
    """What is out of the ordinary: what it is of, and why. Earlier daemons tell less."""
    for key, what, named in _NOTICED:
        for one, why in status.get(key, {}).items():
            yield what, f"{named.format(one)}: {why}"
    for kind, failed in status.get("unattended", {}).items():
        for one, why in failed.items():
            yield "not looked after", f"{kind} {one}: {why}"
    if status.get("others"):
        yield "placed by others", status["others"]


_NOTICED = (
    ("hosts_away", "host away", "{}"),
    ("quarantined", "in quarantine", "period {}"),
    ("hosts_in_error", "host in error", "{}"),
    ("failed_strategies", "strategy fails", "{}: nothing is placed or moved"),
    ("removed_users", "user removed", "{}"),
    ("retired_tenants", "tenant retired", "{}"),
)


STATUS = Verb(
    "status",
    summary="show how the running daemon is, and its prices",
    description="""\
`merkatd status`: how the running daemon is, and its prices.""",
    add_arguments=add_status_arguments,
    run=run_status,
)

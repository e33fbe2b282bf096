"""`merkatd status`: how the running daemon is, and its prices."""

import argparse
from collections.abc import Sequence
from typing import Any

from merkatd.commands.table import Column, Kind, Table
from merkatd.commands.view import add_view, show_view

SUMMARY = "show how the running daemon is, and its prices"

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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    add_view(parser, {"status": TABLE})


def run(arguments: argparse.Namespace) -> int:
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
    for host, why in status["hosts_away"].items():
        lines.append(f"{'host away':18} {host}: {why}")
    for period, why in status["quarantined"].items():
        lines.append(f"{'in quarantine':18} period {period}: {why}")
    for host, why in status.get("hosts_in_error", {}).items():
        lines.append(f"{'host in error':18} {host}: {why}")
    for market, why in status.get("failed_strategies", {}).items():
        lines.append(f"{'strategy fails':18} {market}: nothing is placed or moved: {why}")
    if status.get("others"):
        lines.append(f"{'placed by others':18} {status['others']}")
    for owner, why in status.get("removed_users", {}).items():
        lines.append(f"{'user removed':18} {owner}: {why}")
    for owner, what in status.get("retired_tenants", {}).items():
        lines.append(f"{'tenant retired':18} {owner}: {what}")
    for market, prices in (status["prices"] or {}).items():
        for resource, price in prices.items():
            said = "none clears" if price is None else f"{price:.6g}"
            lines.append(f"{'price of ' + resource:18} {said} in market {market}")
    return lines

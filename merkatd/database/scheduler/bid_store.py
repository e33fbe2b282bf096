"""The tables of bids: the most recent bid of each VM applies, whatever its source.

All bids stay on record in `bid_words`, in the order in which they were stored; clocks don't matter.
Only a bid from a template can arrive late: it is as old as the read of the pool that found it. So
it does not apply if another bid for the VM was stored after that read began.

Example: a read begins when the newest bid has number 5. A tenant bids 3 credits for VM 1 through
XML-RPC (number 6). The read then delivers the VM's template with 2 credits: it is recorded, but the
VM keeps bidding 3.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Named, TypedColumns

from merkatd.database.base.schema import LONG_TEXT, SERIAL, chunks, table
from merkatd.database.base.transactions import LostRaceError


class BidSource(StrEnum):
    """The source of a bid."""

    TEMPLATE = "template"
    XMLRPC = "xmlrpc"
    CONTROLLER = "controller"
    DEFAULT = "default"


class BidColumns(TypedColumns):
    """The columns of `bids`: the bid of each VM in force."""

    vm: Named[int] = Column(sa.Integer(), primary_key=True, autoincrement=False)
    bid: Named[str] = Column(LONG_TEXT)
    source: Named[str] = Column(sa.String(16))
    at_s: Named[float] = Column(sa.Double())
    template_hash: Named[str | None] = Column(sa.String(64))


class WordColumns(TypedColumns):
    """The columns of `bid_words`: all bids on record."""

    id: Named[int] = Column(SERIAL, primary_key=True)
    vm: Named[int] = Column(sa.Integer())
    bid: Named[str] = Column(LONG_TEXT)
    source: Named[str] = Column(sa.String(16))
    at_s: Named[float] = Column(sa.Double())


BIDS = table("bids", BidColumns)
WORDS = table("bid_words", WordColumns, sa.Index(None, "vm", "at_s"), sa.Index(None, "at_s"))

# Each period runs these statements: to build one takes longer than to run it.
_NEWEST = sa.select(sa.func.max(WORDS.c.id))
_HASHES = sa.select(BIDS.c.vm, BIDS.c.template_hash)
_AMOUNTS = sa.select(BIDS.c.vm, BIDS.c.bid)
_OF_VMS = sa.select(BIDS).where(BIDS.c.vm.in_(sa.bindparam("vms", expanding=True)))
_STORED_AFTER = sa.select(WORDS.c.vm).where(WORDS.c.id > sa.bindparam("began")).with_for_update()
_RECORD = sa.insert(WORDS)
_INSERT = sa.insert(BIDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bid:
    """A bid for a VM: credits per period, by resource."""

    vm: int
    bid: Mapping[str, float]
    source: BidSource
    at_s: float
    template_hash: str | None = None
    """The hash of the template's text, if the bid comes from a template."""

    def __post_init__(self) -> None:
        for resource, amount in self.bid.items():
            if not (math.isfinite(amount) and amount >= 0):
                raise ValueError(
                    f"VM {self.vm}: a bid for {resource} must be a finite number of at least 0"
                    f" (got {amount})"
                )


def newest(connection: sa.Connection) -> int:
    """Return the number of the newest bid on record, 0 before the first."""
    return connection.scalar(_NEWEST) or 0


def record_bids(
    connection: sa.Connection, bids: Sequence[Bid], newest_before: int | None = None
) -> frozenset[int]:
    """Record these bids, at most one per VM; return the VMs for which they are now in force.

    `newest_before` is the number of the newest bid when the read of the templates began. If another
    bid for a VM was stored after that, the template's bid is recorded but not put in force. Its
    text still counts as read: reading it again would wrongly replace the later bid.
    """
    bid_of = {bid.vm: bid for bid in bids}
    if len(bid_of) != len(bids):
        raise ValueError("a call can record at most one bid per VM")
    in_force = newest_bids(connection, bid_of)
    overtaken = _overtaken(connection, bids, newest_before)
    new = [bid for vm, bid in bid_of.items() if vm not in in_force]
    repeated = [bid for vm, bid in bid_of.items() if vm in in_force]
    replacing = [bid for bid in repeated if bid.vm not in overtaken]
    if bids:
        connection.execute(_RECORD, [_row(bid) for bid in bids])
    if new:
        _insert(connection, [_row(bid) | {"template_hash": bid.template_hash} for bid in new])
    _replace(connection, replacing)
    read_templates(connection, {bid.vm: bid.template_hash for bid in repeated if bid.template_hash})
    return frozenset(bid.vm for bid in (*new, *replacing))


def read_templates(connection: sa.Connection, hashes: Mapping[int, str]) -> None:
    """Store the hash of the template last read, for VMs that have a bid."""
    if hashes:
        query = sa.update(BIDS).where(BIDS.c.vm == sa.bindparam("which"))
        connection.execute(
            query.values(template_hash=sa.bindparam("text_hash")),
            [{"which": vm, "text_hash": text_hash} for vm, text_hash in hashes.items()],
        )


def changed_templates(connection: sa.Connection, hashes: Mapping[int, str]) -> frozenset[int]:
    """Return the VMs whose template is new or has changed since it was last read, by its hash."""
    # Nearly all rows are needed: reading all is faster than a list of thousands of ids.
    rows = connection.execute(_HASHES)
    read: dict[int, str | None] = {vm: text_hash for vm, text_hash in rows}  # noqa: C416 - rows are no pairs to mypy
    return frozenset(vm for vm, text_hash in hashes.items() if read.get(vm) != text_hash)


def newest_bids(connection: sa.Connection, vms: Iterable[int] | None = None) -> dict[int, Bid]:
    """Return the bids in force by VM, of these VMs or of all."""
    if vms is None:
        return {row.vm: _bid(row) for row in connection.execute(sa.select(BIDS))}
    bids = {}
    for some in chunks(sorted(vms)):
        for row in connection.execute(_OF_VMS, {"vms": some}):
            bids[row.vm] = _bid(row)
    return bids


def locked_bid(connection: sa.Connection, vm: int) -> Bid | None:
    """Return the bid of a VM in force, if any, and lock it until the transaction ends."""
    query = sa.select(BIDS).where(BIDS.c.vm == vm).with_for_update()
    return next((_bid(row) for row in connection.execute(query)), None)


def amounts(connection: sa.Connection) -> dict[int, Mapping[str, float]]:
    """Return only the amounts of the bids in force, by VM."""
    by_text: dict[str, Mapping[str, float]] = {}
    bids: dict[int, Mapping[str, float]] = {}
    for vm, text in connection.execute(_AMOUNTS):
        if text not in by_text:
            by_text[text] = json.loads(text)
        bids[vm] = by_text[text]
    return bids


def history(connection: sa.Connection, vm: int, limit: int = 50) -> tuple[Bid, ...]:
    """Return the recorded bids of a VM, newest first."""
    query = sa.select(WORDS).where(WORDS.c.vm == vm)
    query = query.order_by(WORDS.c.id.desc()).limit(limit)
    return tuple(_bid(row) for row in connection.execute(query))


def forget(connection: sa.Connection, vms: Iterable[int]) -> None:
    """Delete the bids in force of VMs that are gone; they stay on record."""
    for some in chunks(sorted(vms)):
        connection.execute(sa.delete(BIDS).where(BIDS.c.vm.in_(some)))


def forget_controllers_bids(connection: sa.Connection, vms: Iterable[int]) -> None:
    """Delete the bids in force of these VMs that come from a controller."""
    for some in chunks(sorted(vms)):
        which = BIDS.c.vm.in_(some), BIDS.c.source == BidSource.CONTROLLER
        connection.execute(sa.delete(BIDS).where(*which))


def _overtaken(
    connection: sa.Connection, words: Sequence[Bid], began: int | None
) -> frozenset[int]:
    """Return the VMs with a template's bid for which another bid was stored after `began`."""
    if began is None:
        return frozenset()
    vms = {word.vm for word in words if word.source is BidSource.TEMPLATE}
    if not vms:
        return frozenset()
    # Locked rows are current: this transaction may have read long before the newest bid was stored.
    return frozenset(vms.intersection(connection.scalars(_STORED_AFTER, {"began": began})))


def _insert(connection: sa.Connection, rows: list[dict[str, Any]]) -> None:
    try:
        connection.execute(_INSERT, rows)
    except sa.exc.IntegrityError as error:
        raise LostRaceError("another transaction stored a VM's first bid") from error


def _replace(connection: sa.Connection, words: list[Bid]) -> None:
    if words:
        query = sa.update(BIDS).where(BIDS.c.vm == sa.bindparam("which"))
        names: dict[str, Any] = {n: sa.bindparam(n) for n in ("bid", "source", "at_s")}
        rows = [_row(word) for word in words]
        connection.execute(query.values(names), [row | {"which": row.pop("vm")} for row in rows])


def _row(word: Bid) -> dict[str, Any]:
    bid = json.dumps(dict(word.bid), sort_keys=True, separators=(",", ":"))
    return {"vm": word.vm, "bid": bid, "source": word.source, "at_s": word.at_s}


def _bid(row: sa.Row[Any]) -> Bid:
    return Bid(
        vm=row.vm,
        bid=json.loads(row.bid),
        source=BidSource(row.source),
        at_s=row.at_s,
        template_hash=getattr(row, "template_hash", None),
    )

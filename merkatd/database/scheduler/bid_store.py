"""Bids: the newest word on each VM wins, wherever it came from; older words are kept.

Words are in the order in which they were stored, whatever a clock says. Only a template's word may
come late: it is as old as the look that found it, so it does not count where another word was said
since that look began.
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
    """Where a word came from."""

    TEMPLATE = "template"
    XMLRPC = "xmlrpc"
    CONTROLLER = "controller"
    DEFAULT = "default"


class BidColumns(TypedColumns):
    """The columns of `bids`: the present word on each VM."""

    vm: Named[int] = Column(sa.Integer(), primary_key=True, autoincrement=False)
    bid: Named[str] = Column(LONG_TEXT)
    source: Named[str] = Column(sa.String(16))
    at_s: Named[float] = Column(sa.Double())
    template_hash: Named[str | None] = Column(sa.String(64))


class WordColumns(TypedColumns):
    """The columns of `bid_words`: every word there ever was."""

    id: Named[int] = Column(SERIAL, primary_key=True)
    vm: Named[int] = Column(sa.Integer())
    bid: Named[str] = Column(LONG_TEXT)
    source: Named[str] = Column(sa.String(16))
    at_s: Named[float] = Column(sa.Double())


BIDS = table("bids", BidColumns)
WORDS = table("bid_words", WordColumns, sa.Index(None, "vm", "at_s"), sa.Index(None, "at_s"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bid:
    """One word on what a VM bids: credits per period, by resource."""

    vm: int
    bid: Mapping[str, float]
    source: BidSource
    at_s: float
    template_hash: str | None = None
    """Given with a word from a template: the hash of the text it was read from."""

    def __post_init__(self) -> None:
        for resource, amount in self.bid.items():
            if not (math.isfinite(amount) and amount >= 0):
                raise ValueError(
                    f"VM {self.vm} can't bid {amount} for {resource}: a bid is a finite number"
                    " of at least 0"
                )


def newest(connection: sa.Connection) -> int:
    """The number of the newest word on any VM, 0 before the first."""
    return connection.scalar(sa.select(sa.func.max(WORDS.c.id))) or 0


def record_bids(
    connection: sa.Connection, words: Sequence[Bid], began: int | None = None
) -> frozenset[int]:
    """Keep these words, at most one a VM; the VMs whose bid they are from now on.

    `began` is the number of the newest word when the look began from which templates' words are. A
    template's word on a VM of which another was said since is kept for the record and changes
    nothing. Its text counts as read: that it is read again would only take back the later word.
    """
    by_vm = {word.vm: word for word in words}
    if len(by_vm) != len(words):
        raise ValueError("at most one word a VM can be said at a time")
    present = newest_bids(connection, by_vm)
    late = _overtaken(connection, words, began)
    new = [word for vm, word in by_vm.items() if vm not in present]
    known = [word for vm, word in by_vm.items() if vm in present]
    heard = [word for word in known if word.vm not in late]
    if words:
        connection.execute(sa.insert(WORDS), [_row(word) for word in words])
    if new:
        _insert(connection, [_row(w) | {"template_hash": w.template_hash} for w in new])
    _replace(connection, heard)
    read_templates(connection, {w.vm: w.template_hash for w in known if w.template_hash})
    return frozenset(word.vm for word in (*new, *heard))


def read_templates(connection: sa.Connection, hashes: Mapping[int, str]) -> None:
    """Remember the text last read of VMs that have a bid, where it held no new word."""
    if hashes:
        query = sa.update(BIDS).where(BIDS.c.vm == sa.bindparam("which"))
        connection.execute(
            query.values(template_hash=sa.bindparam("text_hash")),
            [{"which": vm, "text_hash": text_hash} for vm, text_hash in hashes.items()],
        )


def changed_templates(connection: sa.Connection, hashes: Mapping[int, str]) -> frozenset[int]:
    """Of these VMs and hashes of their template's text: those to be read, first or again."""
    # All rows, as nearly all are asked for: in thousands that is quicker than naming them.
    rows = connection.execute(sa.select(BIDS.c.vm, BIDS.c.template_hash))
    read: dict[int, str | None] = {vm: text_hash for vm, text_hash in rows}  # noqa: C416 - rows are no pairs to mypy
    return frozenset(vm for vm, text_hash in hashes.items() if read.get(vm) != text_hash)


def newest_bids(connection: sa.Connection, vms: Iterable[int] | None = None) -> dict[int, Bid]:
    """The present bids by VM, of these VMs or of all."""
    if vms is None:
        return {row.vm: _bid(row) for row in connection.execute(sa.select(BIDS))}
    found = {}
    for some in chunks(sorted(vms)):
        for row in connection.execute(sa.select(BIDS).where(BIDS.c.vm.in_(some))):
            found[row.vm] = _bid(row)
    return found


def amounts(connection: sa.Connection) -> dict[int, Mapping[str, float]]:
    """What each VM bids at present, without the rest of the word on it."""
    by_text: dict[str, Mapping[str, float]] = {}
    found: dict[int, Mapping[str, float]] = {}
    for vm, text in connection.execute(sa.select(BIDS.c.vm, BIDS.c.bid)):
        if text not in by_text:
            by_text[text] = json.loads(text)
        found[vm] = by_text[text]
    return found


def history(connection: sa.Connection, vm: int, limit: int = 50) -> tuple[Bid, ...]:
    """The words on a VM, newest first."""
    query = sa.select(WORDS).where(WORDS.c.vm == vm)
    query = query.order_by(WORDS.c.id.desc()).limit(limit)
    return tuple(_bid(row) for row in connection.execute(query))


def forget(connection: sa.Connection, vms: Iterable[int]) -> None:
    """Drop the present bids of VMs that are gone; the words stay on record."""
    for some in chunks(sorted(vms)):
        connection.execute(sa.delete(BIDS).where(BIDS.c.vm.in_(some)))


def _overtaken(
    connection: sa.Connection, words: Sequence[Bid], began: int | None
) -> frozenset[int]:
    """Of VMs of which a template speaks: those of which another word was said since."""
    if began is None:
        return frozenset()
    vms = {word.vm for word in words if word.source is BidSource.TEMPLATE}
    since = connection.scalars(sa.select(WORDS.c.vm).where(WORDS.c.id > began))
    return frozenset(vms.intersection(since))


def _insert(connection: sa.Connection, rows: list[dict[str, Any]]) -> None:
    try:
        connection.execute(sa.insert(BIDS), rows)
    except sa.exc.IntegrityError as error:
        raise LostRaceError("somebody else was the first to say a bid") from error


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

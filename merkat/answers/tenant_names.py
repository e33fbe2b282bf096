"""Names of VMs, hosts and tenants, as ids: the interface takes ids only."""

from collections.abc import Callable, Iterable
from typing import Any

from merkatd.client import Listings, Merkat
from merkatd.client.merkat import SELF
from merkatd.commands.terminal.command_parser import LARGEST_WHOLE, NotDoneError
from merkatd.commands.terminal.table_columns import shortened

_FEW = 5


class TenantNames:
    """The names that a login can see."""

    def __init__(self, merkat: Merkat, user: str) -> None:
        self._merkat = merkat
        self._listings = Listings(merkat)
        self._user = user

    def vm(self, word: str) -> int:
        """Return the id of a VM. Raise NotDoneError."""
        return _id(word, "VM", self._listings.vms)

    def host(self, word: str) -> int:
        """Return the id of a host. Raise NotDoneError."""
        return _id(word, "host", self._listings.hosts)

    def tenant(self, word: str | None) -> int:
        """Return the id of a tenant; without a word, the login's own. Raise NotDoneError."""
        if word is None or word == self._user:
            return SELF
        return _id(
            word,
            "tenant",
            lambda: [{"id": one.id, "name": one.name} for one in self._merkat.tenants()],
        )


def _id(word: str, what: str, rows: Callable[[], Iterable[Any]]) -> int:
    if word.isascii() and word.isdigit() and len(word) <= 10 and int(word) <= LARGEST_WHOLE:
        return int(word)
    ids = [int(row["id"]) for row in rows() if row.get("name") == word]
    if not ids:
        raise NotDoneError(f"no {what} of yours is named {shortened(word)}")
    if len(ids) > 1:
        some = ", ".join(map(str, ids[:_FEW]))
        raise NotDoneError(f"{len(ids)} {what}s are named {shortened(word)}: give an id ({some})")
    return ids[0]

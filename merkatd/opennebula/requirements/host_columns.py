"""What all hosts say, attribute by attribute: columns, each made when it is first asked for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from merkatd.cluster import Bools, Ints
from merkatd.opennebula.requirements.literals import decimal, whole
from merkatd.opennebula.requirements.syntax_tree import Compare, Expression
from merkatd.opennebula.requirements.tokens import Limits

CURRENT_VMS = "CURRENT_VMS"
"""The VMs that a host has, which are compared by their numbers."""

Values = Mapping[str, Sequence[str]]

_Number = TypeVar("_Number", int, float)


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """Texts, each kept once."""

    row: Ints
    """Of each entry: the host,"""
    code: Ints
    """and which of the different texts it is."""
    different: Sequence[str]


@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
    """A number of each host."""

    known: Bools
    value: npt.NDArray[Any]
    """Whole numbers, or numbers of single precision."""


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """What was found out about the text of a requirement."""

    expression: Expression | None
    """None where it can't be understood:"""
    wrong: str
    attributes: frozenset[str]
    """All that it asks about."""
    holds: Bools


@dataclass(frozen=True, slots=True, eq=False)
class Ranked:
    """What was found out about the text of a rank."""

    wrong: str
    """Why it can't be understood, if so."""
    attributes: frozenset[str]
    worth: Ints


class FactTable:
    """What hosts, datastores or networks say; rows as given."""

    def __init__(
        self,
        rows: Sequence[Values],
        vms: Sequence[frozenset[int]] = (),
        before: "FactTable | None" = None,
    ) -> None:
        """`vms` are the VMs of each host.

        What was found out about the table `before` counts for this one, as far as nothing has
        changed that it depends on.
        """
        self.rows = rows
        self.answers: dict[tuple[str, Limits], Answer] = {}
        """By text and what it may say: what was found out about it, for this table and the next."""
        self.ranks: dict[str, Ranked] = {}
        self.known: dict[tuple[Compare, type], Bools] = {}
        """Comparisons that were made: many requirements have some in common."""
        # Even what asks about nothing has an answer for each row.
        self._before = before if before is not None and len(before) == len(rows) else None
        if before is not None:
            before.forget_before()
        self.vms = vms
        self._names: frozenset[str] | None = None
        self._same: dict[str, bool] = {}
        self._firsts: dict[str, Texts] = {}
        self._all: dict[str, Texts] = {}
        self._wholes: dict[str, Numbers] = {}
        self._decimals: dict[str, Numbers] = {}
        self._hosts_of: dict[int, list[int]] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def forget_before(self) -> None:
        """Let go of the table before this one."""
        self._before = None

    @property
    def names(self) -> frozenset[str]:
        """The attributes that any row has."""
        if self._names is None:
            self._names = frozenset().union(*self.rows)
        return self._names

    def answer(self, key: tuple[str, Limits]) -> "Answer | None":
        """What was found out about the text of a requirement, if that still holds."""
        if key not in self.answers and self._before is not None:
            found = self._before.answers.get(key)
            if found is None or not all(map(self._unchanged, found.attributes)):
                return None
            self.answers[key] = found
        return self.answers.get(key)

    def ranked(self, text: str) -> "Ranked | None":
        """What was found out about the text of a rank, if that still holds."""
        if text not in self.ranks and self._before is not None:
            found = self._before.ranks.get(text)
            if found is None or not all(map(self._unchanged, found.attributes)):
                return None
            self.ranks[text] = found
        return self.ranks.get(text)

    def compared(self, key: tuple[Compare, type]) -> Bools | None:
        """What a comparison came to, if that still holds."""
        if key not in self.known and self._before is not None:
            found = self._before.known.get(key)
            if found is None or not self._unchanged(key[0].attribute):
                return None
            self.known[key] = found
        return self.known.get(key)

    def _unchanged(self, attribute: str) -> bool:
        """Whether all rows have the same values of an attribute as in the table before."""
        if attribute not in self._same:
            self._same[attribute] = self._is_same(attribute)
        return self._same[attribute]

    def _is_same(self, attribute: str) -> bool:
        before = self._before
        if before is None or (attribute == CURRENT_VMS and before.vms != self.vms):
            return False
        if attribute not in self.names and attribute not in before.names:
            return True
        return all(
            old.get(attribute) == new.get(attribute)
            for old, new in zip(before.rows, self.rows, strict=True)
        )

    def firsts(self, attribute: str) -> Texts:
        """The first value of those that have the attribute."""
        if attribute not in self._firsts:
            self._firsts[attribute] = self._texts(attribute, 1)
        return self._firsts[attribute]

    def everything(self, attribute: str) -> Texts:
        """All values."""
        if attribute not in self._all:
            self._all[attribute] = self._texts(attribute, None)
        return self._all[attribute]

    def wholes(self, attribute: str) -> Numbers:
        """The first value that is a whole number."""
        if attribute not in self._wholes:
            self._wholes[attribute] = self._numbers(attribute, whole, np.dtype(np.int64))
        return self._wholes[attribute]

    def decimals(self, attribute: str) -> Numbers:
        """The first value that is a number."""
        if attribute not in self._decimals:
            self._decimals[attribute] = self._numbers(attribute, decimal, np.dtype(np.float32))
        return self._decimals[attribute]

    def with_vm(self, vm: int) -> Bools:
        """The hosts that have this VM."""
        if self._hosts_of is None:
            self._hosts_of = {}
            for row, vms in enumerate(self.vms):
                for one in vms:
                    self._hosts_of.setdefault(one, []).append(row)
        found = np.zeros(len(self.rows), dtype=bool)
        found[self._hosts_of.get(vm, [])] = True
        return found

    def _texts(self, attribute: str, most: int | None) -> Texts:
        codes: dict[str, int] = {}
        rows: list[int] = []
        entries: list[int] = []
        for row, values in enumerate(self.rows if attribute in self.names else ()):
            for text in values.get(attribute, ())[:most]:
                rows.append(row)
                entries.append(codes.setdefault(text, len(codes)))
        return Texts(np.array(rows, dtype=np.int64), np.array(entries, dtype=np.int64), list(codes))

    def _numbers(
        self,
        attribute: str,
        read: Callable[[str], _Number | None],
        kind: "np.dtype[np.int64] | np.dtype[np.float32]",
    ) -> Numbers:
        """A first value that is no number is passed over, like a value that is missing."""
        texts = self.everything(attribute)
        read_once = [read(text) for text in texts.different]
        known = np.zeros(len(self.rows), dtype=bool)
        value = np.zeros(len(self.rows), dtype=kind)
        if read_once:
            good = np.array([number is not None for number in read_once])[texts.code]
            numbers = np.array([number or 0 for number in read_once], dtype=kind)[texts.code]
            # From the last to the first, so that the first is what remains.
            value[texts.row[good][::-1]] = numbers[good][::-1]
            known[texts.row[good]] = True
        return Numbers(known, value)

"""Columns of facts: the values of an attribute on all hosts, made on first use."""

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
"""The attribute for the VMs of a host, which are compared by id."""

Values = Mapping[str, Sequence[str]]

_Number = TypeVar("_Number", int, float)


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """The texts of a column, each stored once."""

    row: Ints
    """The row of each entry."""
    code: Ints
    """The index of each entry's text in `different`."""
    different: Sequence[str]


@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
    """A number for each row."""

    known: Bools
    """Whether the row has a number."""
    value: npt.NDArray[Any]
    """Whole numbers, or numbers of single precision."""


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """The result of a requirement."""

    expression: Expression | None
    """The parsed requirement; None if it can't be parsed."""
    wrong: str
    """Why the text can't be parsed; empty if it can."""
    attributes: frozenset[str]
    """All attributes that the requirement names."""
    holds: Bools


@dataclass(frozen=True, slots=True, eq=False)
class Ranked:
    """The result of a rank."""

    wrong: str
    """Why the text can't be parsed; empty if it can."""
    attributes: frozenset[str]
    worth: Ints


class FactTable:
    """The facts of hosts, datastores or networks, with cached results; a row for each object."""

    def __init__(
        self,
        rows: Sequence[Values],
        vms: Sequence[frozenset[int]] = (),
        before: "FactTable | None" = None,
    ) -> None:
        """`vms` are the VMs of each host.

        Results of the table `before` are reused if the attributes that they depend on have not
        changed.
        """
        self.rows = rows
        self.answers: dict[tuple[str, Limits], Answer] = {}
        """Results of requirements by text and limits, for this table and the next."""
        self.ranks: dict[str, Ranked] = {}
        self.known: dict[tuple[Compare, type], Bools] = {}
        """Results of comparisons: many requirements share some."""
        # Results have an entry for each row, so they can't be reused if the number of rows differs.
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
        """Release the previous table."""
        self._before = None

    @property
    def names(self) -> frozenset[str]:
        """Return the attributes that any row has."""
        if self._names is None:
            self._names = frozenset().union(*self.rows)
        return self._names

    def answer(self, key: tuple[str, Limits]) -> "Answer | None":
        """Return the cached result of a requirement, None if there is none that is still valid."""
        if key not in self.answers and self._before is not None:
            answer = self._before.answers.get(key)
            if answer is None or not all(map(self._unchanged, answer.attributes)):
                return None
            self.answers[key] = answer
        return self.answers.get(key)

    def ranked(self, text: str) -> "Ranked | None":
        """Return the cached result of a rank, None if there is none that is still valid."""
        if text not in self.ranks and self._before is not None:
            ranking = self._before.ranks.get(text)
            if ranking is None or not all(map(self._unchanged, ranking.attributes)):
                return None
            self.ranks[text] = ranking
        return self.ranks.get(text)

    def compared(self, key: tuple[Compare, type]) -> Bools | None:
        """Return the cached result of a comparison, None if there is none that is still valid."""
        if key not in self.known and self._before is not None:
            column = self._before.known.get(key)
            if column is None or not self._unchanged(key[0].attribute):
                return None
            self.known[key] = column
        return self.known.get(key)

    def _unchanged(self, attribute: str) -> bool:
        """Return whether all rows have the same values of an attribute as in the table before."""
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
        """Return the first value of each row that has the attribute."""
        if attribute not in self._firsts:
            self._firsts[attribute] = self._texts(attribute, 1)
        return self._firsts[attribute]

    def everything(self, attribute: str) -> Texts:
        """Return all values of an attribute."""
        if attribute not in self._all:
            self._all[attribute] = self._texts(attribute, None)
        return self._all[attribute]

    def wholes(self, attribute: str) -> Numbers:
        """Return each row's first value that is a whole number."""
        if attribute not in self._wholes:
            self._wholes[attribute] = self._numbers(attribute, whole, np.dtype(np.int64))
        return self._wholes[attribute]

    def decimals(self, attribute: str) -> Numbers:
        """Return each row's first value that is a number."""
        if attribute not in self._decimals:
            self._decimals[attribute] = self._numbers(attribute, decimal, np.dtype(np.float32))
        return self._decimals[attribute]

    def with_vm(self, vm: int) -> Bools:
        """Return for each row whether the host has this VM."""
        if self._hosts_of is None:
            self._hosts_of = {}
            for row, vms in enumerate(self.vms):
                for number in vms:
                    self._hosts_of.setdefault(number, []).append(row)
        there = np.zeros(len(self.rows), dtype=bool)
        there[self._hosts_of.get(vm, [])] = True
        return there

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
        """Return each row's first value that is a number; other values are skipped."""
        texts = self.everything(attribute)
        read_once = [read(text) for text in texts.different]
        known = np.zeros(len(self.rows), dtype=bool)
        value = np.zeros(len(self.rows), dtype=kind)
        if read_once:
            good = np.array([number is not None for number in read_once])[texts.code]
            numbers = np.array([number or 0 for number in read_once], dtype=kind)[texts.code]
            # Assign from the last to the first, so that the first value of a row remains.
            value[texts.row[good][::-1]] = numbers[good][::-1]
            known[texts.row[good]] = True
        return Numbers(known, value)

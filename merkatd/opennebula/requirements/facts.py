"""What all hosts say, attribute by attribute: columns, each made when it is first asked for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from merkatd.cluster import Bools, Ints
from merkatd.opennebula.requirements.tree import Compare
from merkatd.opennebula.requirements.values import decimal, whole

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


class FactTable:
    """What hosts, datastores or networks say; rows as given."""

    def __init__(self, rows: Sequence[Values], vms: Sequence[frozenset[int]] = ()) -> None:
        """`vms` are the VMs of each host."""
        self.rows = rows
        self._vms = vms
        self._firsts: dict[str, Texts] = {}
        self._all: dict[str, Texts] = {}
        self._wholes: dict[str, Numbers] = {}
        self._decimals: dict[str, Numbers] = {}
        self._hosts_of: dict[int, list[int]] | None = None
        self.known: dict[tuple[Compare, type], Bools] = {}
        """Comparisons that were made already: many requirements have some in common."""

    def __len__(self) -> int:
        return len(self.rows)

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
            for row, vms in enumerate(self._vms):
                for one in vms:
                    self._hosts_of.setdefault(one, []).append(row)
        found = np.zeros(len(self.rows), dtype=bool)
        found[self._hosts_of.get(vm, [])] = True
        return found

    def _texts(self, attribute: str, most: int | None) -> Texts:
        codes: dict[str, int] = {}
        rows: list[int] = []
        entries: list[int] = []
        for row, values in enumerate(self.rows):
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

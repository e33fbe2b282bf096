"""How much is compared for one owner in a period.

A text is compared with every host again where an attribute that it names has changed, and some
change all the time (FREE_MEMORY). One text is bounded; an owner may give each VM another one. So an
owner's different texts are counted, with the oldest VMs first; what is beyond the bound is not
compared, and counts as a text that is too long.
"""

from collections.abc import Iterator
from dataclasses import replace

from merkatd.opennebula.pools.constraint_facts import VmRequirements

MOST = 10_000_000
"""Comparisons of an owner's terms with hosts: some seconds of work at most."""
_LEAST_TERMS = 500
"""So many terms an owner has on however many hosts."""
_BETWEEN_TERMS, _BETWEEN_OPERANDS = "&|", "+-*/"


class Allowances:
    """Counts the terms of each owner's texts, each text once."""

    def __init__(self, hosts: int) -> None:
        """On so many hosts."""
        self.terms = max(_LEAST_TERMS, MOST // max(hosts, 1))
        """As many as an owner may have."""
        self._texts: dict[int, set[str]] = {}
        self._left: dict[int, int] = {}

    def covers(self, owner: int, wants: VmRequirements) -> bool:
        """Take in the texts of one VM more of the owner's; return whether they are within."""
        known = self._texts.setdefault(owner, set())
        new = {text: signs for text, signs in _texts(wants) if text and text not in known}
        if not new:
            return True
        # Or somewhat more: signs stand in names and values too.
        terms = sum(1 + sum(map(text.count, signs)) for text, signs in new.items())
        left = self._left.get(owner, self.terms) - terms
        if left < 0:
            return False
        self._left[owner] = left
        known.update(new)
        return True

    def why(self) -> str:
        """Why a text beyond the bound excludes every host."""
        return (
            f"the requirements and ranks of its owner's VMs have more than {self.terms:,} terms"
            " in all; those of older VMs count first"
        )


def without_texts(wants: VmRequirements) -> VmRequirements:
    """Return the same without what its owner wrote of hosts, datastores and networks."""
    nics = tuple(replace(nic, requirements="", rank="") for nic in wants.nics)
    return replace(wants, requirements="", rank="", requirements_ds="", rank_ds="", nics=nics)


def _texts(wants: VmRequirements) -> Iterator[tuple[str, str]]:
    """Those that owners write, each with the signs between its terms."""
    for text in (
        wants.requirements,
        wants.requirements_ds,
        *(nic.requirements for nic in wants.nics),
    ):
        yield text, _BETWEEN_TERMS
    for text in (wants.rank, wants.rank_ds, *(nic.rank for nic in wants.nics)):
        yield text, _BETWEEN_OPERANDS

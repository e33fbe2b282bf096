"""Bounds on the comparisons that each owner's requirements cause in a period.

A requirement is compared with every host again if an attribute that it names has changed, and some
attributes, such as FREE_MEMORY, change all the time. Each text is bounded, but an owner may give
each VM a different text. So an owner's different texts are counted, those of the oldest VMs first.
Texts beyond the bound are not compared; their VMs get no host, as with texts that are too long.
"""

from collections.abc import Iterator
from dataclasses import replace

from merkatd.opennebula.pools.constraint_facts import VmRequirements

MOST = 10_000_000
"""The most comparisons of an owner's terms with hosts: at most some seconds of work."""
_LEAST_TERMS = 500
"""The terms that an owner may have in any case, however many hosts there are."""
_BETWEEN_TERMS, _BETWEEN_OPERANDS = "&|", "+-*/"


class Allowances:
    """Counts the terms of each owner's texts, each text once."""

    def __init__(self, hosts: int) -> None:
        """Set the bound for this number of hosts."""
        self.terms = max(_LEAST_TERMS, MOST // max(hosts, 1))
        """The most terms of an owner."""
        self._texts: dict[int, set[str]] = {}
        self._left: dict[int, int] = {}

    def covers(self, owner: int, wants: VmRequirements) -> bool:
        """Add the texts of another VM of the owner; return False if they exceed the bound."""
        known = self._texts.setdefault(owner, set())
        new = {text: signs for text, signs in _texts(wants) if text and text not in known}
        if not new:
            return True
        # This may count slightly too many terms, because signs also occur in names and values.
        terms = sum(1 + sum(map(text.count, signs)) for text, signs in new.items())
        left = self._left.get(owner, self.terms) - terms
        if left < 0:
            return False
        self._left[owner] = left
        known.update(new)
        return True

    def why(self) -> str:
        """Return why a text beyond the bound excludes every host."""
        return (
            f"the requirements and ranks of its owner's VMs have more than {self.terms:,} terms"
            " in all; those of older VMs count first"
        )


def without_texts(wants: VmRequirements) -> VmRequirements:
    """Return the requirements without the owner's texts on hosts, datastores and networks."""
    nics = tuple(replace(nic, requirements="", rank="") for nic in wants.nics)
    return replace(wants, requirements="", rank="", requirements_ds="", rank_ds="", nics=nics)


def _texts(wants: VmRequirements) -> Iterator[tuple[str, str]]:
    """Yield the texts that owners write, each with the signs between its terms."""
    for text in (
        wants.requirements,
        wants.requirements_ds,
        *(nic.requirements for nic in wants.nics),
    ):
        yield text, _BETWEEN_TERMS
    for text in (wants.rank, wants.rank_ds, *(nic.rank for nic in wants.nics)):
        yield text, _BETWEEN_OPERANDS

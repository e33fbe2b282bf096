"""OpenNebula's language of requirements and ranks, as its own scheduler reads it.

`parse` and `parse_rank` turn texts into trees. `holds` and `rank_of` evaluate a tree on a single
host; `hosts_where` and `host_ranks_of` evaluate it on all hosts of a `FactTable` at once, with the
same results. `answered` and `ranked` cache the result of a text until the text, or an attribute
that it names, changes.
"""

from merkatd.opennebula.requirements.evaluate import (
    answered,
    holds,
    host_ranks_of,
    hosts_where,
    rank_of,
    ranked,
)
from merkatd.opennebula.requirements.grammar import parse, parse_rank
from merkatd.opennebula.requirements.host_columns import CURRENT_VMS, FactTable
from merkatd.opennebula.requirements.syntax_tree import (
    Always,
    Chain,
    Compare,
    Expression,
    Not,
    Rank,
)
from merkatd.opennebula.requirements.tokens import OF_ONED, OF_USERS, Limits, RequirementError

__all__ = [
    "CURRENT_VMS",
    "OF_ONED",
    "OF_USERS",
    "Always",
    "Chain",
    "Compare",
    "Expression",
    "FactTable",
    "Limits",
    "Not",
    "Rank",
    "RequirementError",
    "answered",
    "holds",
    "host_ranks_of",
    "hosts_where",
    "parse",
    "parse_rank",
    "rank_of",
    "ranked",
]

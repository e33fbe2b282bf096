"""OpenNebula's language of requirements and ranks, as its own scheduler reads it.

`parse` and `parse_rank` make trees of texts; `holds` and `worth` ask one host, `holding` and
`worths` all hosts of a `FactTable` at once, with the same answers. `answered` and `ranked`
remember what a text came to until the text changes, or what it asks about.
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

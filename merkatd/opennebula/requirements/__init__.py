"""OpenNebula's language of requirements and ranks, as its own scheduler reads it.

`parse` and `parse_rank` make trees of texts; `holds` and `worth` ask one host, `holding` and
`worths` all hosts of a `FactTable` at once, with the same answers.
"""

from merkatd.opennebula.requirements.boolean import parse
from merkatd.opennebula.requirements.everywhere import holding, worths
from merkatd.opennebula.requirements.facts import CURRENT_VMS, FactTable
from merkatd.opennebula.requirements.one_by_one import holds, worth
from merkatd.opennebula.requirements.ranking import parse_rank
from merkatd.opennebula.requirements.tokens import RequirementError
from merkatd.opennebula.requirements.tree import (
    Always,
    Chain,
    Compare,
    Expression,
    Not,
    Rank,
)

__all__ = [
    "CURRENT_VMS",
    "Always",
    "Chain",
    "Compare",
    "Expression",
    "FactTable",
    "Not",
    "Rank",
    "RequirementError",
    "holding",
    "holds",
    "parse",
    "parse_rank",
    "worth",
    "worths",
]

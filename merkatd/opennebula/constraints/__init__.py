"""Placement constraints of users and administrators, as OpenNebula defines them.

They cover all that OpenNebula's own scheduler considers, except CPU and memory: these belong to the
market.
"""

from merkatd.opennebula.constraints.datastores import LET_ONED_CHOOSE
from merkatd.opennebula.constraints.feasibility import Feasibility, judge_feasibility

__all__ = ["LET_ONED_CHOOSE", "Feasibility", "judge_feasibility"]

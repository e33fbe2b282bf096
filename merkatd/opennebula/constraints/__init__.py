"""Honour: what OpenNebula lets users and administrators say about places is judged here.

Everything its own scheduler considers but CPU and memory, which are the market's.
"""

from merkatd.opennebula.constraints.datastores import LET_ONED_CHOOSE
from merkatd.opennebula.constraints.feasibility import Feasibility, judge_feasibility

__all__ = ["LET_ONED_CHOOSE", "Feasibility", "judge_feasibility"]

"""Honour: what OpenNebula lets users and administrators say about places is judged here.

Everything its own scheduler considers but CPU and memory, which are the market's.
"""

from merkatd.opennebula.honour.judging import Judged, judge
from merkatd.opennebula.honour.storage import LET_ONED_CHOOSE

__all__ = ["LET_ONED_CHOOSE", "Judged", "judge"]

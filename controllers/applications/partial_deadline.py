"""Partial deadline: what is done by the deadline is worth its part of the budget.

It runs until then whatever happens, unless its template says otherwise, and suspends only while not
even a least part of what its VMs can use can be had.
"""

from controllers.applications.deadline import FullDeadline


class PartialDeadline(FullDeadline):
    """Tracks the pace that is needed; goes on late, since `give_up` is false by default."""

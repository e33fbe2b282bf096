"""Table 1: what an execution is worth to its tenant, from the budget's worth down to its loss."""


def full_deadline(budget: float, exec_s: float, deadline_s: float) -> float:
    """All or the opposite of all."""
    return budget if exec_s <= deadline_s else -budget


def partial_deadline(budget: float, exec_s: float, deadline_s: float, done: float) -> float:
    """In time, or the part of the work that was done."""
    return budget if exec_s <= deadline_s else budget * done


def full_performance(budget: float, exec_s: float, deadline_s: float, ideal_s: float) -> float:
    """Falls with the time it took, from the budget at the ideal to its opposite at the deadline."""
    if exec_s <= ideal_s:
        return budget
    if deadline_s <= ideal_s:
        return -budget
    return max(-budget, budget * (deadline_s + ideal_s - 2 * exec_s) / (deadline_s - ideal_s))

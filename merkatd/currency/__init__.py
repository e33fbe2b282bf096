"""The rules of money: who gets what, what a balance allows, when somebody is warned. Pure.

Amounts are whole micro-credits everywhere; a remainder that can't be divided stays where it
was, so that nothing appears or vanishes.
"""

from merkatd.currency.credits import MICRO, MOST_CREDITS, credits_of, micro

__all__ = ["MICRO", "MOST_CREDITS", "credits_of", "micro"]

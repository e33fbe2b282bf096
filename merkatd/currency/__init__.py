"""The rules of money: income, affordable bids and warnings; pure functions.

All amounts are whole micro-credits. A remainder that can't be divided stays where it was, so no
credit appears or vanishes.
"""

from merkatd.currency.credits import MICRO, MOST_CREDITS, credits_of, micro

__all__ = ["MICRO", "MOST_CREDITS", "credits_of", "micro"]

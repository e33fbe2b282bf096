"""All tables in one place, for those who need the whole schema: migrations and their test."""

from merkatd.database.accounts import ACCOUNTS
from merkatd.database.allocations import ALLOCATIONS
from merkatd.database.bids import BIDS, WORDS
from merkatd.database.charges import SHORTFALLS
from merkatd.database.entries import ENTRIES, TRANSACTIONS
from merkatd.database.periods import PERIODS
from merkatd.database.prices import PRICES
from merkatd.database.schema import METADATA
from merkatd.database.steps import STEPS

TABLES = (
    ACCOUNTS,
    ALLOCATIONS,
    BIDS,
    ENTRIES,
    PERIODS,
    PRICES,
    SHORTFALLS,
    STEPS,
    TRANSACTIONS,
    WORDS,
)

__all__ = ["METADATA", "TABLES"]

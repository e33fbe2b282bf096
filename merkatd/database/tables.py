"""All tables in one place, for those who need the whole schema: migrations and their test."""

from merkatd.database.accounts import ACCOUNTS
from merkatd.database.allocations import ALLOCATIONS
from merkatd.database.arrears import ARREARS
from merkatd.database.bids import BIDS, WORDS
from merkatd.database.budgets import BUDGETS
from merkatd.database.charges import SHORTFALLS
from merkatd.database.comparisons import COMPARISONS
from merkatd.database.details import DETAILS
from merkatd.database.doings import DOINGS
from merkatd.database.entries import ENTRIES, TRANSACTIONS
from merkatd.database.fleets import MEMBERS
from merkatd.database.group_vms import GROUP_VMS
from merkatd.database.groups import VM_GROUPS
from merkatd.database.lease import LEASES
from merkatd.database.notes import NOTES
from merkatd.database.orders import ORDERS
from merkatd.database.periods import PERIODS
from merkatd.database.plans import PLANS
from merkatd.database.platforms import PLATFORMS
from merkatd.database.prices import PRICES
from merkatd.database.reservations import RESERVATIONS
from merkatd.database.rollups import ROLLUPS
from merkatd.database.rounds import ROUNDS
from merkatd.database.schema import METADATA
from merkatd.database.steps import STEPS
from merkatd.database.tenants import GROUPS, TENANTS
from merkatd.database.uses import USES

TABLES = (
    ACCOUNTS,
    ALLOCATIONS,
    ARREARS,
    BIDS,
    BUDGETS,
    COMPARISONS,
    DETAILS,
    DOINGS,
    ENTRIES,
    GROUPS,
    GROUP_VMS,
    LEASES,
    MEMBERS,
    NOTES,
    ORDERS,
    PERIODS,
    PLANS,
    PLATFORMS,
    PRICES,
    RESERVATIONS,
    ROLLUPS,
    ROUNDS,
    SHORTFALLS,
    STEPS,
    TENANTS,
    TRANSACTIONS,
    USES,
    VM_GROUPS,
    WORDS,
)

__all__ = ["METADATA", "TABLES"]

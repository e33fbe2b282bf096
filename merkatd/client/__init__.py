"""A small client for tenants' own programs: blocking, typed, standard library only.

from merkatd.client import Merkat

with Merkat() as merkat:  # reads ONE_AUTH and MERKAT_XMLRPC
    print(merkat.prices())
    print(merkat.quote(7, cpu=4.0).cost)
    merkat.bid(7, cpu=4.0)
"""

from merkatd.client.administration import Administration, Daemon, Mode, Plan, PlanStep
from merkatd.client.answers import (
    ApplicationExplanation,
    BidChange,
    Budget,
    CreatedVm,
    Explanation,
    MonthReport,
    NewBid,
    PastPrice,
    Price,
    PriceReason,
    Quote,
    QuotedResource,
    Refusal,
    Share,
    ShareReport,
    Statement,
    StatementVm,
    Tenant,
    VmBid,
)
from merkatd.client.errors import (
    AuthenticationError,
    BadCallError,
    ForbiddenError,
    InternalError,
    MerkatError,
    MissingError,
    NotNowError,
    UnreachableError,
)
from merkatd.client.group_client import Group, Groups, GroupVm
from merkatd.client.limit_order_client import (
    BookedOrder,
    LimitOdds,
    LimitOrder,
    LimitOrders,
    LimitQuote,
)
from merkatd.client.listing_client import Listings
from merkatd.client.merkat import Merkat, default_endpoint, default_session
from merkatd.client.platform_client import Deed, Platform, PlatformQuote, Platforms, PlatformVm

__all__ = [
    "Administration",
    "ApplicationExplanation",
    "AuthenticationError",
    "BadCallError",
    "BidChange",
    "BookedOrder",
    "Budget",
    "CreatedVm",
    "Daemon",
    "Deed",
    "Explanation",
    "ForbiddenError",
    "Group",
    "GroupVm",
    "Groups",
    "InternalError",
    "LimitOdds",
    "LimitOrder",
    "LimitOrders",
    "LimitQuote",
    "Listings",
    "Merkat",
    "MerkatError",
    "MissingError",
    "Mode",
    "MonthReport",
    "NewBid",
    "NotNowError",
    "PastPrice",
    "Plan",
    "PlanStep",
    "Platform",
    "PlatformQuote",
    "PlatformVm",
    "Platforms",
    "Price",
    "PriceReason",
    "Quote",
    "QuotedResource",
    "Refusal",
    "Share",
    "ShareReport",
    "Statement",
    "StatementVm",
    "Tenant",
    "UnreachableError",
    "VmBid",
    "default_endpoint",
    "default_session",
]

"""All XML-RPC methods by name; the imported modules add them to the table."""

from collections.abc import Mapping

from merkatd.api.xmlrpc import method_table
from merkatd.api.xmlrpc.methods import (
    daemon_methods,
    group_methods,
    limit_order_methods,
    listing_methods,
    market_methods,
    money_methods,
    platform_methods,
    reason_methods,
    report_methods,
    vm_methods,
)

_HOLD_METHODS = (
    daemon_methods,
    group_methods,
    limit_order_methods,
    listing_methods,
    market_methods,
    money_methods,
    platform_methods,
    reason_methods,
    report_methods,
    vm_methods,
)

METHODS: Mapping[str, method_table.Method] = method_table.METHODS
"""All methods by name."""

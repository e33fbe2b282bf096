"""All methods by name: the modules that hold them put them into the table."""

from collections.abc import Mapping

from merkatd.api.xmlrpc import (
    daemon_calls,
    group_calls,
    market_calls,
    money_calls,
    platform_calls,
    system_calls,
    table,
)

_HOLD_METHODS = (
    daemon_calls,
    group_calls,
    market_calls,
    money_calls,
    platform_calls,
    system_calls,
)

METHODS: Mapping[str, table.Method] = table.METHODS
"""Every method that there is."""

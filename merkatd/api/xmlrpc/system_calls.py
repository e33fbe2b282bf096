"""The methods about the daemon itself."""

from typing import Any

from merkatd.api.xmlrpc.table import Caller, House, Returns, method


@method(
    "merkat.system.version",
    returns=Returns("string", "The version, as `0.1.0`.", {}, {}),
    example="",
)
async def system_version(house: House, _caller: Caller) -> Any:
    """Which version of Merkat answers."""
    return house.version

"""Which addresses a tenant's template may have its monitor connect to. Pure."""

import re
from collections.abc import Sequence
from typing import Final

LONGEST: Final = 253
"""Characters of a host's name."""


def check_address(address: str, allowed: Sequence[str]) -> None:
    """Raise ValueError unless the address is one of those allowed, `*` standing for any characters.

    `{vm}`, which stands for the id of a VM of the platform, counts as any other text.
    """
    if len(address) <= LONGEST and any(_matches(one, address) for one in allowed):
        return
    there = ", ".join(repr(one) for one in allowed if one) or "none"
    raise ValueError(
        f"address {address[:60]!r}: this site allows {there} ([bus] ssh_allowed lists more)"
    )


def _matches(pattern: str, address: str) -> bool:
    found = ".*".join(re.escape(part) for part in pattern.split("*"))
    return re.fullmatch(found, address) is not None

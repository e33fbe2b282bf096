"""Which addresses a tenant's template may have its monitor connect to. Pure."""

import re
from collections.abc import Sequence
from typing import Final

_VM = "\0"
"""Stands for the id of a VM while addresses are compared."""
_NUMERIC = re.compile(rf"[0-9.*{_VM}]+")

LONGEST: Final = 253
"""Characters of a host's name."""


def check_address(address: str, allowed: Sequence[str]) -> None:
    """Raise ValueError unless the address is one of those allowed.

    `*` stands for digits and dots in a pattern of these, as `10.1.*`: a name that only begins like
    that would lead anywhere. In all others it stands for the characters of names. `{vm}`, the id
    of a VM of the platform, is matched by `*` or by itself.
    """
    taken = len(address) <= LONGEST and _VM not in address and not address.startswith("-")
    if taken and any(_matches(one, address) for one in allowed):
        return
    there = ", ".join(repr(one) for one in allowed if one) or "none"
    raise ValueError(
        f"address {address[:60]!r}: this site allows {there} ([bus] ssh_allowed lists more)"
    )


def _matches(pattern: str, address: str) -> bool:
    pattern, address = (text.replace("{vm}", _VM) for text in (pattern, address))
    others = "0-9." if _NUMERIC.fullmatch(pattern) else "A-Za-z0-9._-"
    found = f"[{_VM}{others}]+".join(re.escape(part) for part in pattern.split("*"))
    return re.fullmatch(found, address) is not None

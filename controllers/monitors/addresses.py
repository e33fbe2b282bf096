"""Which addresses a tenant's template may have its monitor connect to. Pure."""

import re
from collections.abc import Sequence
from string import ascii_letters
from typing import Final

_VM = "\0"
"""Stands for the id of a VM while addresses are compared."""
_NUMERIC = re.compile(rf"[0-9.*{_VM}]+")
_DIGITS = frozenset(f"0123456789.{_VM}")
_NAMES = _DIGITS | frozenset(f"{ascii_letters}_-")

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
    """Return whether a pattern takes an address, in time that grows with the address alone.

    Each part between two stars is taken where it stands first: what a star stands for is the
    shortest then, and all that follows has the most room. An expression would try every place.
    """
    pattern, address = (text.replace("{vm}", _VM) for text in (pattern, address))
    others = _DIGITS if _NUMERIC.fullmatch(pattern) else _NAMES
    first, *parts = pattern.split("*")
    if not parts:
        return pattern == address
    at, end = len(first), len(address) - len(parts[-1])
    if not (address.startswith(first) and address.endswith(parts[-1])):
        return False
    for part in parts[:-1]:
        found = address.find(part, at + 1, max(end, 0))
        if found < 0 or not others.issuperset(address[at:found]):
            return False
        at = found + len(part)
    return at < end and others.issuperset(address[at:end])

"""Which addresses a tenant's template may have its monitor connect to. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_letters
from typing import Final, Self

_VM = "\0"
"""Stands for the id of a VM while addresses are compared."""
_NUMERIC = re.compile(rf"[0-9.*{_VM}]+")
_DIGITS = frozenset(f"0123456789.{_VM}")
_NAMES = _DIGITS | frozenset(f"{ascii_letters}_-")
MAX_ADDRESS_LENGTH: Final = 253
"""Characters of a host's name."""


def check_address(address: str, allowed: Sequence[str]) -> None:
    """Raise ValueError unless the address is one of those allowed.

    `*` stands for digits and dots in a pattern of these, as `10.1.*`: a name that only begins like
    that would lead anywhere. In all others it stands for the characters of names. `{vm}`, the id
    of a VM of the platform, is matched by `*` or by itself.
    """
    taken = (
        len(address) <= MAX_ADDRESS_LENGTH and _VM not in address and not address.startswith("-")
    )
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


VM: Final = "{vm}"
WORKER: Final = "one-{vm}"
MAX_NAME_LENGTH: Final = 63
"""Characters of a worker's name, as of any host's."""
_NAME_DIGITS: Final = 10


@dataclass(frozen=True, slots=True)
class WorkerNames:
    """Made from the parameter `worker` of a template, which its tenant writes."""

    before: str
    after: str

    @classmethod
    def of(cls, text: str) -> Self:
        """Read `worker`. Raise ValueError where it has {vm} not once, or is too long."""
        if text.count(VM) != 1 or len(text) > MAX_NAME_LENGTH:
            shown = repr(text if len(text) <= MAX_NAME_LENGTH else f"{text[:MAX_NAME_LENGTH]}...")
            raise ValueError(
                f"worker must have {VM} once and at most {MAX_NAME_LENGTH} characters (got {shown})"
            )
        before, _, after = text.partition(VM)
        return cls(before, after)

    def of_vm(self, vm: int) -> str:
        """Return the name of this VM's worker."""
        return f"{self.before}{vm}{self.after}"

    def vm_of(self, name: str) -> int | None:
        """Return the VM of the worker of this name, None where it is another's."""
        middle = name.removeprefix(self.before).removesuffix(self.after)
        if not middle.isdecimal() or not middle.isascii() or len(middle) > _NAME_DIGITS:
            return None
        return int(middle) if name == f"{self.before}{middle}{self.after}" else None

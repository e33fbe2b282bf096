"""The terms of a monitor in a template: allowed addresses, and names of workers. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_letters
from typing import Final, Self

_VM = "\0"
"""Placeholder for a VM's id during the comparison of addresses."""
_NUMERIC = re.compile(rf"[0-9.*{_VM}]+")
_DIGITS = frozenset(f"0123456789.{_VM}")
_NAMES = _DIGITS | frozenset(f"{ascii_letters}_-")
MAX_ADDRESS_LENGTH: Final = 253
"""Length limit of a host name, in characters."""


def check_address(address: str, allowed: Sequence[str]) -> None:
    """Raise ValueError unless the address matches an allowed pattern.

    In a numeric pattern such as `10.1.*`, `*` stands for digits and dots only: otherwise
    `10.1.example.org` would match, and could point anywhere. In other patterns `*` stands for the
    characters of names. `{vm}`, the id of a VM of the platform, matches `*` and itself.
    """
    taken = (
        len(address) <= MAX_ADDRESS_LENGTH and _VM not in address and not address.startswith("-")
    )
    if taken and any(_matches(pattern, address) for pattern in allowed):
        return
    there = ", ".join(repr(pattern) for pattern in allowed if pattern) or "none"
    raise ValueError(
        f"address {address[:60]!r} is not allowed: this site allows {there} (see `ssh_allowed` in"
        " section [bus] of the configuration)"
    )


def _matches(pattern: str, address: str) -> bool:
    """Return whether a pattern matches an address, in linear time.

    Each part between two stars is matched at its first occurrence: this leaves the most room for
    the parts after it. A regular expression would try every occurrence.
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
        place = address.find(part, at + 1, max(end, 0))
        if place < 0 or not others.issuperset(address[at:place]):
            return False
        at = place + len(part)
    return at < end and others.issuperset(address[at:end])


VM: Final = "{vm}"
WORKER: Final = "one-{vm}"
MAX_NAME_LENGTH: Final = 63
"""Length limit of a worker's name, in characters: one label of a host name."""
_NAME_DIGITS: Final = 10


@dataclass(frozen=True, slots=True)
class WorkerNames:
    """The pattern of workers' names, from the parameter `worker` of a tenant's template."""

    before: str
    after: str

    @classmethod
    def of(cls, text: str) -> Self:
        """Parse `worker`. Raise ValueError unless it has {vm} exactly once and is short enough."""
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
        """Return the VM of the worker with this name; None if the name does not match."""
        middle = name.removeprefix(self.before).removesuffix(self.after)
        if not middle.isdecimal() or not middle.isascii() or len(middle) > _NAME_DIGITS:
            return None
        return int(middle) if name == f"{self.before}{middle}{self.after}" else None

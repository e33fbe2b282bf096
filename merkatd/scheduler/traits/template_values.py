"""Numbers in the templates of VMs and hosts."""

from collections.abc import Mapping

MAX_AMOUNT = 1e15
"""The largest accepted amount, since charges must fit whole micro-credits."""


def amount(text: str) -> float | None:
    """Return the number in a text; None if it is no valid amount."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value <= MAX_AMOUNT else None


def checked_number(attributes: Mapping[str, str], name: str, problems: list[str]) -> float | None:
    """Return the number of a VM's attribute; report an invalid one and return None."""
    value = amount(attributes[name])
    if value is None:
        value_text = repr(attributes[name][:40])
        problems.append(f"{name} must be a number from 0 to {MAX_AMOUNT:g} (got {value_text})")
    return value

"""Times and amounts for people."""

from datetime import UTC, datetime


def at(seconds: float) -> str:
    """A moment, as the template has it."""
    try:
        return datetime.fromtimestamp(round(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return "the end of time"


def lasting(seconds: float) -> str:
    """A duration, in the largest unit of which there is one at least."""
    for unit, length in (("d", 86_400.0), ("h", 3600.0), ("m", 60.0)):
        if seconds >= length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.3g} s"


def credit(amount: float) -> str:
    """Credits, or a price."""
    return f"{amount:.6g}"

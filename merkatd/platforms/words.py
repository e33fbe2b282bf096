"""Times and amounts for people."""

from merkatd.moments import bounded, utc


def at(seconds: float) -> str:
    """A moment, as the template has it."""
    return utc(round(bounded(seconds))).strftime("%Y-%m-%dT%H:%M:%SZ")


def lasting(seconds: float) -> str:
    """A duration, in the largest unit of which there is one at least."""
    for unit, length in (("d", 86_400.0), ("h", 3600.0), ("m", 60.0)):
        if seconds >= length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.3g} s"


def credit(amount: float) -> str:
    """Credits, or a price."""
    return f"{amount:.6g}"

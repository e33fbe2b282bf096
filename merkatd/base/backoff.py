"""Delays before a process that ended is restarted: short at first, then longer, then no more."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """The limits of restarts."""

    least_s: float
    """The shortest wait."""
    most_s: float
    """The longest wait."""
    tries: int
    """Failed starts in a row after which there is no restart."""


@dataclass(frozen=True, slots=True)
class RestartHistory:
    """The failed starts of a process so far."""

    failures: int = 0
    """Failed starts in a row."""

    def after(self, lived_s: float, patience: Patience) -> "RestartHistory":
        """Return the history after one more end.

        If the process lived longer than the longest wait, the count starts again at 1.
        """
        return replace(self, failures=1 if lived_s > patience.most_s else self.failures + 1)

    def wait_s(self, patience: Patience, draw: float) -> float | None:
        """Return the wait before the next start, or None for no restart.

        `draw`, from 0 to 1, is random: it spreads the restarts of many processes over time.
        """
        if self.failures > patience.tries:
            return None
        # A larger exponent overflows a float.
        doubled = patience.least_s * 2.0 ** min(max(self.failures - 1, 0), 1000)
        return min(doubled, patience.most_s) * (0.5 + draw / 2)

"""When a process that ended is started again: soon at first, then ever later, then not at all."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long it is tried."""

    least_s: float
    most_s: float
    tries: int
    """Starts in a row that come to nothing."""


@dataclass(frozen=True, slots=True)
class RestartHistory:
    """How it went so far."""

    failures: int = 0
    """Starts in a row that came to nothing."""

    def after(self, lived_s: float, patience: Patience) -> "RestartHistory":
        """After one more end; who lived longer than the longest wait begins anew."""
        return replace(self, failures=1 if lived_s > patience.most_s else self.failures + 1)

    def wait_s(self, patience: Patience, draw: float) -> float | None:
        """How long to wait, None where it is tried no more; `draw`, from 0 to 1, spreads them."""
        if self.failures > patience.tries:
            return None
        # A double can't hold more halvings than these.
        doubled = patience.least_s * 2.0 ** min(max(self.failures - 1, 0), 1000)
        return min(doubled, patience.most_s) * (0.5 + draw / 2)

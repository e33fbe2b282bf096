"""Waits before another try: short at first, then longer, and in the end no more tries."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """The waits between tries; they double with each failure in a row."""

    first_s: float
    """The wait after the first failure, before the spread."""
    longest_s: float
    """The longest wait, before the spread."""
    retries: int | None = None
    """The most retries in a row; None if there is no limit."""
    spread: tuple[float, float] = (0.5, 1.0)
    """The smallest and the largest part of a wait: a random part between them spreads the tries of
    many over time."""

    def is_over(self, failures: int) -> bool:
        """Return whether there is no other try after this number of failures in a row."""
        return self.retries is not None and failures > self.retries

    def wait_s(self, failures: int, draw: float = 1.0) -> float:
        """Return the wait after this number of failures in a row.

        `draw`, from 0 to 1, is random: it sets the part of the wait. Where one process decides for
        all, nothing needs to be spread.
        """
        # A larger exponent overflows a float.
        doubled = self.first_s * 2.0 ** min(max(failures - 1, 0), 1000)
        least, most = self.spread
        return min(doubled, self.longest_s) * (least + (most - least) * draw)

    def failures_after(self, failures: int, lived_s: float) -> int:
        """Return the number of failures in a row after one more, of a process that ran for a time.

        If it ran for longer than the longest wait, the count starts again at 1.
        """
        return 1 if lived_s > self.longest_s else failures + 1

"""Whether the daemon is well, for whoever watches over it."""

from dataclasses import dataclass

from merkatd.database.scheduler.order_store import Mode

MOST_FAILURES = 3
"""In a row: one call that fails is nothing to wake anybody for."""


@dataclass(frozen=True, slots=True)
class Health:
    """In one word, and why."""

    well: bool
    why: str


def health(failures: int, standby: str | None, *, paused: bool, mode: Mode = Mode.ON) -> Health:
    """A daemon that waits, by order or for another, is well; one whose periods fail is not."""
    if failures >= MOST_FAILURES:
        return Health(False, f"the last {failures} periods failed; the log says why")
    if standby is not None:
        return Health(True, f"standing by: {standby}")
    if paused:
        return Health(True, "paused")
    return Health(True, "acting" if mode is Mode.ON else f"mode {mode}")

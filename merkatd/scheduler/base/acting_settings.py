"""Settings of the mode: which decisions are carried out."""

from dataclasses import dataclass

from merkatd.database.scheduler.order_store import Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class ActingSettings:
    """Which decisions are carried out."""

    mode: Mode = Mode.ON
    """dry: nothing is done, and all output says so. shadow: nothing is done, and differences from
    another scheduler's placements are recorded. ask: placing, moving and suspending VMs waits for
    an administrator's approval; limits are set without it. on: everything is done. `merkatd mode`
    orders another mode, which applies until that order is withdrawn."""
    quiet_periods: int = 0
    """The number of periods with few migrations after a start, a pause, or a change of mode to
    on."""
    quiet_migrations: int = 2
    """The most migrations in each of these periods; those with the greatest gain come first.
    Waiting VMs are placed as usual."""

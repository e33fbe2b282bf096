"""What operations on VMs cost, and what a lack of memory does.

The defaults are those measured in the utility-placement paper (its Table 1): a start costs the
same whatever is started, the others go by the memory that has to be moved.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Seconds, and seconds a MiB."""

    boot_s: float = 3.6
    suspend_s_per_mib: float = 0.0353
    resume_s_per_mib: float = 0.0333
    migrate_s_per_mib: float = 0.0132
    migrating_speed: float = 0.9
    """The part of its speed that a VM keeps while it is migrated."""
    thrashing: float = 2.0
    """How much a lack of memory hurts: a task that has the part m of the memory it needs runs
    at 1 - thrashing * (1 - m) of its speed, and not at all below 0."""

    def suspend_s(self, memory_mib: float) -> float:
        """From the order until the VM is on disk; it does not work any more meanwhile."""
        return self.suspend_s_per_mib * memory_mib

    def resume_s(self, memory_mib: float) -> float:
        """From the order until it works again."""
        return self.resume_s_per_mib * memory_mib

    def migrate_s(self, memory_mib: float) -> float:
        """From the order until it is on the other host."""
        return self.migrate_s_per_mib * memory_mib

    def speed(self, memory_part: float) -> float:
        """With this part of the memory it needs."""
        return min(max(1.0 - self.thrashing * (1.0 - memory_part), 0.0), 1.0)

"""The administrator's settings of limits, with their defaults."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuSettings:
    """The settings of quotas and weights, and the differences that need no step."""

    quota_period_us: int = 100_000
    """The length of the interval in which a VM may use its quota."""
    band_units: float = 0.5
    """The difference between quota and share, in percent of a core, that needs no step. So a VM may
    exceed its share by this much for a while."""
    band_part: float = 0.02
    """The difference between quota and share that needs no step, as a part of the share."""
    weight_band_part: float = 0.05
    """The difference between the present and the new weight that needs no step, as a part of the
    new weight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySettings:
    """The distance and speed of balloon changes."""

    margin_mib: int = 128
    """The memory that a guest keeps above its measured use. The larger of the two margins
    applies."""
    margin_part: float = 0.1
    """The memory that a guest keeps above its measured use, as a part of the use."""
    most_step_mib: int = 4096
    """The largest change of a VM's memory in a period. The smaller of the two limits applies."""
    most_step_part: float = 0.25
    """The largest change of a VM's memory in a period, as a part of its size."""
    least_step_mib: int = 64
    """The difference between balloon and target that needs no step."""
    shrink_unmeasured: bool = False
    """Whether the daemon takes memory from guests that don't report their use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PinSettings:
    """The settings of changes to existing pins."""

    least_gain_units: float = 20.0
    """The least amount by which a change of pins must relieve a core, in percent of a core; above
    0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsSettings:
    """The settings of all limits."""

    cpu: CpuSettings = field(default_factory=CpuSettings)
    memory: MemorySettings = field(default_factory=MemorySettings)
    pins: PinSettings = field(default_factory=PinSettings)

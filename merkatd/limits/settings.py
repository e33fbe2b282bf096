"""The administrator's settings of limits, with their defaults."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuSettings:
    """The settings of quotas and weights, and the differences that need no step."""

    quota_period_us: int = 100_000
    """Length of the interval that a quota applies to."""
    band_units: float = 0.5
    """Difference between quota and share, in percent of a core, that needs no step. So a VM may
    exceed its share by this much for a while."""
    band_part: float = 0.02
    """Difference between quota and share, as a part of the share, that needs no step."""
    weight_band_part: float = 0.05
    """Difference between set and wanted weight, as a part of the wanted, that needs no step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySettings:
    """The distance and speed of balloon changes."""

    margin_mib: int = 128
    """Memory that a guest keeps above its measured use; the larger of the two margins counts."""
    margin_part: float = 0.1
    """Memory that a guest keeps above its measured use, as a part of the use."""
    most_step_mib: int = 4096
    """Largest change of a VM's memory in a period; the smaller of the two limits counts."""
    most_step_part: float = 0.25
    """Largest change of a VM's memory in a period, as a part of its size."""
    least_step_mib: int = 64
    """Difference between balloon and target that needs no step."""
    shrink_unmeasured: bool = False
    """Whether to take memory from guests that don't report their use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PinSettings:
    """The settings of changes to existing pins."""

    least_gain_units: float = 20.0
    """Least relief of a core by a change, in percent of a core; above 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsSettings:
    """The settings of all limits."""

    cpu: CpuSettings = field(default_factory=CpuSettings)
    memory: MemorySettings = field(default_factory=MemorySettings)
    pins: PinSettings = field(default_factory=PinSettings)

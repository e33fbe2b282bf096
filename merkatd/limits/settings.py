"""What the administrator may choose about limits, with the defaults."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuSettings:
    """How CPU shares become quotas and weights, and which differences are left alone."""

    quota_period_us: int = 100_000
    """The stretch of time that a quota is a part of."""
    band_units: float = 0.5
    """A quota that is set stays while it is within this many units of the share,"""
    band_part: float = 0.02
    """or within this part of it. So much above its share a VM may be for a while."""
    weight_band_part: float = 0.05
    """A weight that is set stays while it is within this part of the one wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySettings:
    """How far and how fast balloons move."""

    margin_mib: int = 128
    """What a guest keeps above its measured use, at least,"""
    margin_part: float = 0.1
    """and as a part of its use; the larger of the two counts."""
    most_step_mib: int = 4096
    """The most that one VM gives or gets in a period,"""
    most_step_part: float = 0.25
    """and the most as a part of its size; the smaller of the two counts."""
    least_step_mib: int = 64
    """Nearer than this to its target a balloon is left alone."""
    shrink_unmeasured: bool = False
    """Whether to take memory from guests that don't tell how much they use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PinSettings:
    """When pins that stand are changed."""

    least_gain_units: float = 20.0
    """By how much a change must relieve a core, in percent of a core; above 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsSettings:
    """The settings of all parts."""

    cpu: CpuSettings = field(default_factory=CpuSettings)
    memory: MemorySettings = field(default_factory=MemorySettings)
    pins: PinSettings = field(default_factory=PinSettings)

"""How large the demo's hosts and VMs are, and how long a minute of its script takes."""

from dataclasses import dataclass

from merkatd.demo.domains import Kind

_USUAL_CORES = 8
_REAL_MEMORY_MIB = 2048
"""Real guests of the demo use next to nothing of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The script is written for simulated hosts of eight cores; others follow in proportion."""

    host_cores: int = _USUAL_CORES
    host_memory_mib: int = 16_384
    memory_use_part: float = 0.375
    """What a simulated guest uses of its memory."""
    minute_s: float = 60.0
    """Seconds of the cloud's time in a minute of the script."""
    real: Kind | None = None
    """What real guests are made of; None where they are simulated."""

    @property
    def work_part(self) -> float:
        """How much of the script's work there is to do."""
        return self.host_cores / _USUAL_CORES

    @property
    def vcpus(self) -> int:
        """Of each VM: half a host."""
        return max(1, self.host_cores // 2)

    @property
    def memory_mib(self) -> int:
        """Of each VM: a quarter of a host; an eighth where nobody can take it from them."""
        return self.host_memory_mib // (4 if self.real is None else 8)


SIMULATED = Scale()


def of_this_machine(kind: Kind, cores: int, minute_s: float) -> Scale:
    """For real guests on the machine that the demo runs on, whose time can't be compressed."""
    return Scale(host_cores=cores, host_memory_mib=_REAL_MEMORY_MIB, minute_s=minute_s, real=kind)

"""The power of hosts: whether each is on, and the energy that it has used.

# Note [Exact energy]

A host draws `idle + (full - idle) x load / cores` watts. Its load only changes when its cores are
divided anew, so its power is constant between two such moments, and the energy is a sum of
products. Example: 4 cores, 80 W idle, 160 W full. An hour without load and half an hour with 2
cores in use are 80 + 120 / 2 = 140 Wh. A host draws its full power while it starts, and none while
it is off. Used by `PowerMeter.update`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from merkatd.embedded.model.template_text import number

if TYPE_CHECKING:
    from merkatd.embedded.model.records import Host
    from merkatd.embedded.model.settings import HostSize
    from merkatd.embedded.model.world import World

_MOST_WATTS = 1e6
_S_PER_HOUR = 3600.0


@dataclass(slots=True)
class PowerRecord:
    """The power of a host: its draw since `at_s`, its energy until then, and why it is off."""

    id: int
    at_s: float
    energy_wh: float = 0.0
    watts: float = 0.0
    cores: float = 0.0
    """The cores in use."""
    fed: bool = True
    """Whether at least one of its power domains works."""
    asleep: bool = False
    crashed: bool = False
    ready_s: float = 0.0
    """The end of its start; 0 while it does not start."""

    @property
    def starting(self) -> bool:
        """Whether it starts."""
        return self.ready_s > 0

    @property
    def on(self) -> bool:
        """Whether it runs guests."""
        return self.fed and not self.asleep and not self.crashed and not self.starting

    @property
    def word(self) -> str:
        """The state of its power: on, starting, asleep or off."""
        if not self.fed or self.crashed:
            return "off"
        if self.asleep:
            return "asleep"
        return "starting" if self.starting else "on"


class PowerMeter:
    """The power and the energy of all hosts."""

    def __init__(self, world: World, size: HostSize) -> None:
        """Hosts without attributes have the power of `size`."""
        self._world = world
        self._size = size
        self.rows: dict[int, PowerRecord] = {}
        world.on_change(self._follow)

    def row(self, host: Host) -> PowerRecord:
        """Return the power of a host."""
        row = self.rows.get(host.id)
        if row is None:
            row = self.rows[host.id] = PowerRecord(host.id, self._world.now())
            row.watts = self._draw(host, row)
            self._world.changed("power", host.id)
        return row

    def energy_wh(self, host: Host) -> float:
        """Return the energy that a host has used until now."""
        row = self.row(host)
        seconds = max(0.0, self._world.now() - row.at_s)
        return row.energy_wh + row.watts * seconds / _S_PER_HOUR

    def load(self, host_id: int, cores: float) -> None:
        """Change the number of cores in use on a host from now on."""
        host = self._world.hosts.get(host_id)
        if host is not None:
            self.row(host).cores = cores
            self.update(host)

    def update(self, host: Host) -> None:
        """Add the energy until now, and compute the power from now on. See Note [Exact energy]."""
        row = self.row(host)
        watts = self._draw(host, row)
        if watts != row.watts:
            row.energy_wh = self.energy_wh(host)
            row.at_s = max(row.at_s, self._world.now())
            row.watts = watts
        self._world.changed("power", host.id)

    def _draw(self, host: Host, row: PowerRecord) -> float:
        idle, full = self._range(host)
        if row.on:
            return idle + (full - idle) * min(1.0, 100 * row.cores / host.total_cpu)
        return full if row.word == "starting" else 0.0

    def _range(self, host: Host) -> tuple[float, float]:
        """Return the idle and the full power in the host's template, or those of its size."""
        usual = self._size.idle_watts, self._size.full_watts
        idle = _watts(host, "MERKAT_IDLE_WATTS", usual[0])
        full = _watts(host, "MERKAT_FULL_WATTS", usual[1])
        return (idle, full) if idle <= full else usual

    def _follow(self, kind: str, host_id: int) -> None:
        """Follow new, changed and removed hosts."""
        if kind != "host":
            return
        host = self._world.hosts.get(host_id)
        if host is not None:
            row = self.row(host)
            if self._draw(host, row) != row.watts:
                self.update(host)
        elif self.rows.pop(host_id, None) is not None:
            self._world.changed("power", host_id)


def _watts(host: Host, name: str, default: float) -> float:
    text = host.template.get(name) or host.inherited.get(name)
    watts = number(text, float, -1.0)
    return watts if 0 <= watts <= _MOST_WATTS else default

"""The hosts' drivers, made to fail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pathlib import Path

    from merkatd.embedded.cloud import EmbeddedCloud

LCM_OF = {
    "deploy": ("BOOT",),
    "migrate": ("MIGRATE",),
    "save": ("SAVE_STOP", "SAVE_SUSPEND", "SAVE_MIGRATE"),
    "restore": ("BOOT_SUSPENDED", "BOOT_MIGRATE", "BOOT_STOPPED"),
    "shutdown": ("SHUTDOWN", "SHUTDOWN_POWEROFF", "SHUTDOWN_UNDEPLOY"),
    "resize": ("HOTPLUG_RESIZE",),
}
"""The life-cycle states in which a driver carries out each action."""


class Drivers(Protocol):
    """The drivers of an endpoint."""

    def fail(self, action: str) -> None:
        """Make the driver fail at this action, a key of LCM_OF, from now on."""

    def mend(self) -> None:
        """Remove all failures."""


class EmbeddedDrivers:
    """The drivers of an embedded cloud in this process."""

    def __init__(self, cloud: EmbeddedCloud) -> None:
        self._cloud = cloud

    def fail(self, action: str) -> None:
        """Make the driver fail at this action from now on."""
        for lcm in LCM_OF[action]:
            self._cloud.call("embedded.fault.add", self._arguments({"kind": "fail", "lcm": lcm}))

    def mend(self) -> None:
        """Remove all failures."""
        self._cloud.call("embedded.fault.clear", self._arguments())

    def _arguments(self, *arguments: object) -> list[object]:
        return ["oneadmin:secret", *arguments]


class DummyDrivers:
    """OpenNebula's dummy drivers, which read their answers from files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def fail(self, action: str) -> None:
        """Make the driver fail at this action from now on."""
        (self._folder / action).write_text("failure\n")

    def mend(self) -> None:
        """Remove all failures."""
        for action in LCM_OF:
            (self._folder / action).unlink(missing_ok=True)

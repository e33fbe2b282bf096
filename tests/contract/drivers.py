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
"""The life-cycle states in which a driver does what."""


class Drivers(Protocol):
    """Drivers of an endpoint."""

    def fail(self, action: str) -> None:
        """From now on the driver fails at this action, a key of LCM_OF."""

    def mend(self) -> None:
        """From now on it fails at nothing."""


class EmbeddedDrivers:
    """Of an embedded cloud in this process."""

    def __init__(self, cloud: EmbeddedCloud) -> None:
        self._cloud = cloud

    def fail(self, action: str) -> None:
        """From now on the driver fails at this action."""
        for lcm in LCM_OF[action]:
            self._cloud.call("embedded.fault.add", self._arguments({"kind": "fail", "lcm": lcm}))

    def mend(self) -> None:
        """From now on it fails at nothing."""
        self._cloud.call("embedded.fault.clear", self._arguments())

    def _arguments(self, *arguments: object) -> list[object]:
        return ["oneadmin:secret", *arguments]


class DummyDrivers:
    """OpenNebula's own: what they answer stands in files of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def fail(self, action: str) -> None:
        """From now on the driver fails at this action."""
        (self._folder / action).write_text("failure\n")

    def mend(self) -> None:
        """From now on it fails at nothing."""
        for action in LCM_OF:
            (self._folder / action).unlink(missing_ok=True)

"""Where a demo lives: a temporary directory with its configuration, gone at the end."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

from twisted.logger import LogBeginner, globalLogBeginner, textFileLogObserver

from merkatd.config.configuration import Config
from merkatd.config.loader import load
from merkatd.demo.demo_script import SIMULATED, Scale

_CONFIGURATION = """\
# The demo's own, gone with it.
[daemon]
state_directory = "{directory}"
[period]
interval = "{interval:.6f}s"
settle = "{settle:.6f}s"
[cloud]
kind = "embedded"
hosts = {hosts}
host_cores = {cores}
host_memory = "{memory_mib}MiB"
seed = {seed}
speed = {speed:.6f}
call_limit = "5m"
[money]
starting_credits = {credits:.1f}
"""
_REAL = """\
[hypervisor]
kind = "libvirt"
uri = "{address}"
"""
_SETTLE_PART = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """What can be chosen about a demo."""

    seconds: float = 60.0
    seed: int = 1
    speed: float = 60.0
    """Seconds of the cloud's time in one of the watcher's; a period is 60 of the cloud's."""
    hosts: int = 4
    scale: Scale = SIMULATED

    @property
    def cloud_speed(self) -> float:
        """How fast the cloud's time runs: that of real guests can't be compressed."""
        return self.speed if self.scale.real is None else 1.0

    @property
    def starting_credits(self) -> float:
        """More than anybody can spend, and little enough to see it become less."""
        minutes = self.seconds * self.cloud_speed / self.scale.minute_s
        return max(5_000.0, round(150 * minutes * self.hosts / 4, -3))


def _until_closed(log: TextIO) -> Any:
    """Writes events to the file; what is said once the demo is over is said to nobody."""
    write = textFileLogObserver(log)

    def observer(event: Any) -> None:
        if not log.closed:
            write(event)

    return observer


def _configured(options: DemoOptions, directory: Path) -> str:
    scale = options.scale
    text = _CONFIGURATION.format(
        directory=directory,
        interval=scale.minute_s,
        settle=scale.minute_s * _SETTLE_PART,
        hosts=options.hosts,
        cores=scale.host_cores,
        memory_mib=scale.host_memory_mib,
        seed=options.seed,
        speed=options.cloud_speed,
        credits=options.starting_credits,
    )
    return text if scale.real is None else text + _REAL.format(address=scale.real.address)


class DemoSite:
    """The directory, and the log of the daemon in it."""

    def __init__(self, options: DemoOptions, beginner: LogBeginner = globalLogBeginner) -> None:
        self._options = options
        self._beginner = beginner
        self._directory = tempfile.TemporaryDirectory(prefix="merkat-demo-")
        self._log: TextIO | None = None

    def __enter__(self) -> Self:
        self.configuration.write_text(_configured(self._options, self.path))
        if self._options.scale.real is not None:
            # Whoever runs the guests reads what they boot from; what is secret stays so.
            self.path.chmod(0o711)
        self._log = (self.path / "merkatd.log").open("w")
        self._beginner.beginLoggingTo([_until_closed(self._log)], redirectStandardIO=False)
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        if self._log is not None:
            self._log.close()
        self._directory.cleanup()

    @property
    def path(self) -> Path:
        """The directory."""
        return Path(self._directory.name)

    @property
    def configuration(self) -> Path:
        """What to give to the commands in another terminal."""
        return self.path / "merkatd.toml"

    @property
    def config(self) -> Config:
        """The configuration, as the commands read it."""
        return load(self.configuration)

    @property
    def endpoint(self) -> str:
        """Where the cloud answers, once the daemon has started."""
        return (self.path / "one_xmlrpc").read_text().strip()

    @property
    def administrator(self) -> str:
        """The login of the cloud's administrator."""
        return (self.path / "one_auth").read_text().strip()

"""The temporary directory of a demo, with its configuration and its log."""

import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

from twisted.logger import LogBeginner, globalLogBeginner, textFileLogObserver

from merkatd.config.configuration import Config
from merkatd.config.loader import load
from merkatd.demo.demo_options import DemoOptions

_CONFIGURATION = """\
# The configuration of a demo, which removes it at its end.
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
[market.default]
strategy = "{strategy}"
[money]
starting_credits = {credits:.1f}
"""
_REAL = """\
[hypervisor]
kind = "libvirt"
uri = "{address}"
"""
_SETTLE_PART = 0.05


def _until_closed(log: TextIO) -> Any:
    """Return an observer that writes events to the file until the file is closed."""
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
        strategy=options.strategy,
        credits=options.starting_credits,
    )
    return text if scale.real is None else text + _REAL.format(address=scale.real.address)


class DemoSite:
    """The directory of a demo, and the daemon's log in it."""

    def __init__(self, options: DemoOptions, beginner: LogBeginner = globalLogBeginner) -> None:
        self._options = options
        self._beginner = beginner
        self._directory = tempfile.TemporaryDirectory(prefix="merkat-demo-")
        self._log: TextIO | None = None

    def __enter__(self) -> Self:
        self.configuration.write_text(_configured(self._options, self.path))
        if self._options.scale.real is not None:
            # The user that runs the guests must reach their boot disk; secret files stay private.
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
        """Return the path of the directory."""
        return Path(self._directory.name)

    @property
    def configuration(self) -> Path:
        """Return the path of the configuration, for commands in another terminal."""
        return self.path / "merkatd.toml"

    @property
    def config(self) -> Config:
        """Return the configuration."""
        return load(self.configuration)

    @property
    def endpoint(self) -> str:
        """Return the cloud's address; valid after the daemon has started."""
        return (self.path / "one_xmlrpc").read_text().strip()

    @property
    def tenants_endpoint(self) -> str:
        """Return the address of Merkat's own calls; valid after the daemon has started."""
        return (self.path / "merkat_xmlrpc").read_text().strip()

    @property
    def administrator(self) -> str:
        """Return the login of the cloud's administrator."""
        return (self.path / "one_auth").read_text().strip()

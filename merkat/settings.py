"""Where the daemon is and with which login: options, environment and configuration files."""

import difflib
import os
import ssl
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from merkatd.client.merkat import DEFAULT_ENDPOINT, default_endpoint
from merkatd.commands.terminal.command_parser import NotDoneError
from merkatd.commands.terminal.table_columns import shortened

EXAMPLE = "http://SERVER:2634/RPC2"
NO_ADDRESS = (
    f'set MERKAT_ENDPOINT={EXAMPLE}, or write endpoint = "{EXAMPLE}" to'
    " ~/.config/merkat/config.toml"
)
_KEYS = ("endpoint", "certificate")
_LONGEST_FILE = 65_536


@dataclass(frozen=True, slots=True)
class DaemonAddress:
    """The address of a daemon, and where the user wrote it."""

    endpoint: str
    source: str | None
    """Where the address is from; None for the default address."""
    certificate: Path | None = None
    """The file with the certificate of the authority that the daemon's certificate is from."""

    def context(self) -> ssl.SSLContext | None:
        """Return how to check the daemon's certificate. Raise NotDoneError."""
        if self.certificate is None or not self.endpoint.startswith("https:"):
            return None
        try:
            return ssl.create_default_context(cafile=self.certificate)
        except ssl.SSLError:
            raise NotDoneError(f"{self.certificate}: expected certificates in PEM") from None
        except OSError as error:
            raise NotDoneError(f"{self.certificate}: {error.strerror}") from None


def daemon_address(
    option: str | None, environment: Mapping[str, str] = os.environ
) -> DaemonAddress:
    """Return the daemon's address: of the option, MERKAT_ENDPOINT, or a file. Raise NotDoneError.

    The address of `onegroup` and of the library (MERKAT_XMLRPC, ~/.one/merkat_xmlrpc) comes last.
    """
    file = _file(environment)
    written = _read(file)
    named = environment.get("MERKAT_CERTIFICATE") or written.get("certificate")
    certificate = None if named is None else file.parent / Path(named).expanduser()
    for address, source in (
        (option, "--endpoint"),
        (environment.get("MERKAT_ENDPOINT", "").strip() or None, "MERKAT_ENDPOINT"),
        (written.get("endpoint"), str(file)),
    ):
        if address is not None:
            return DaemonAddress(_checked(address, source), source, certificate)
    other = default_endpoint(environment)
    if other != DEFAULT_ENDPOINT:
        source = "MERKAT_XMLRPC or ~/.one/merkat_xmlrpc"
        return DaemonAddress(_checked(other, source), source, certificate)
    return DaemonAddress(DEFAULT_ENDPOINT, None, certificate)


def _file(environment: Mapping[str, str]) -> Path:
    home = Path(environment.get("HOME") or Path.home())
    folder = environment.get("XDG_CONFIG_HOME") or home / ".config"
    return Path(folder) / "merkat" / "config.toml"


def _read(file: Path) -> Mapping[str, str]:
    """Return the settings in the file, none if there is no file. Raise NotDoneError."""
    try:
        with file.open("rb") as stream:
            content = stream.read(_LONGEST_FILE)
        written: Mapping[str, Any] = tomllib.loads(content.decode())
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise NotDoneError(f"{file}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise NotDoneError(f"{file}: expected TOML: {error}") from None
    for name, value in written.items():
        if name not in _KEYS:
            near = difflib.get_close_matches(name, _KEYS, 1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(_KEYS)}"
            raise NotDoneError(f"{file}: unknown setting {shortened(name)}; {hint}")
        if not isinstance(value, str) or not value:
            raise NotDoneError(f"{file}: {name} must be a text (got {shortened(str(value))})")
    return written


def _checked(address: str, source: str) -> str:
    """Return an address of HTTP. Raise NotDoneError."""
    try:
        parts = urlsplit(address)
        fine = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fine = False
    if not fine or not address.isascii() or not address.isprintable() or " " in address:
        raise NotDoneError(
            f"{source}: the address must be like {EXAMPLE} (got {shortened(address)})"
        )
    return address

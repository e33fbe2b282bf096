"""The daemon's login and the server's address, from the configuration or OpenNebula's defaults."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

DEFAULT_ENDPOINT = "http://localhost:2633/RPC2"
_AUTH = "ONE_AUTH"
_ENDPOINT = "ONE_XMLRPC"


class LoginError(Exception):
    """A missing or invalid login; the message names the file and what is expected."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """A session and its source."""

    session: str = field(repr=False)
    """user:password, or user:token."""
    origin: str


def auth_file(configured: Path | None, environment: Mapping[str, str], home: Path) -> Path:
    """Return the file with the login: as configured, from ONE_AUTH, or in the home folder."""
    if configured is not None:
        return configured
    if environment.get(_AUTH):
        return Path(environment[_AUTH]).expanduser()
    return home / ".one" / "one_auth"


def endpoint(configured: str, environment: Mapping[str, str], home: Path) -> str:
    """Return the server's address: as configured, from ONE_XMLRPC, the home folder, or default."""
    if configured:
        return configured
    if environment.get(_ENDPOINT):
        return environment[_ENDPOINT].strip()
    try:
        address = (home / ".one" / "one_endpoint").read_text().strip()
    except (OSError, UnicodeDecodeError):
        address = ""
    return address or DEFAULT_ENDPOINT


def login_from(path: Path) -> Credentials:
    """Read the login from a file of OpenNebula's tools. Raise LoginError."""
    try:
        lines = path.read_text().strip().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise LoginError(f"{path}: the login can't be read: {why}") from None
    session = lines[0].strip() if lines else ""
    user, colon, secret = session.partition(":")
    if not (user and colon and secret):
        raise LoginError(f"{path}: expected a line user:password")
    return Credentials(session, str(path))

"""Who we are and where the server is: OpenNebula's own conventions, and the configuration first."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

DEFAULT_ENDPOINT = "http://localhost:2633/RPC2"
_AUTH = "ONE_AUTH"
_ENDPOINT = "ONE_XMLRPC"


class LoginError(Exception):
    """There is no login; the message names the file and says what would be right."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """A session, and where it was found."""

    session: str = field(repr=False)
    """user:password, or user:token."""
    origin: str


def auth_file(configured: Path | None, environment: Mapping[str, str], home: Path) -> Path:
    """The file with the login: the configured one, else ONE_AUTH's, else the home folder's."""
    if configured is not None:
        return configured
    if environment.get(_AUTH):
        return Path(environment[_AUTH]).expanduser()
    return home / ".one" / "one_auth"


def endpoint(configured: str, environment: Mapping[str, str], home: Path) -> str:
    """The configured address, else ONE_XMLRPC, else the home folder's, else the usual one."""
    if configured:
        return configured
    if environment.get(_ENDPOINT):
        return environment[_ENDPOINT].strip()
    try:
        found = (home / ".one" / "one_endpoint").read_text().strip()
    except (OSError, UnicodeDecodeError):
        found = ""
    return found or DEFAULT_ENDPOINT


def login_from(path: Path) -> Credentials:
    """The login that a file holds, as OpenNebula's tools keep it. Raises LoginError."""
    try:
        lines = path.read_text().strip().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise LoginError(f"{path}: the login can't be read: {why}") from None
    session = lines[0].strip() if lines else ""
    user, colon, secret = session.partition(":")
    if not (user and colon and secret):
        raise LoginError(f"{path}: user:password is right")
    return Credentials(session, str(path))

"""Where the daemon is and who asks, as OpenNebula's own tools are told."""

import os
from collections.abc import Mapping
from pathlib import Path

from merkatd.client.errors import MerkatError

DEFAULT_ENDPOINT = "http://localhost:2634/RPC2"


def default_endpoint(environment: Mapping[str, str] = os.environ) -> str:
    """MERKAT_XMLRPC, or the first line of ~/.one/merkat_xmlrpc, or port 2634 of this machine."""
    if said := environment.get("MERKAT_XMLRPC", "").strip():
        return said
    return _line(_home(environment) / ".one" / "merkat_xmlrpc") or DEFAULT_ENDPOINT


def default_session(environment: Mapping[str, str] = os.environ) -> str:
    """user:password, from the file that ONE_AUTH names, else ~/.one/one_auth."""
    named = environment.get("ONE_AUTH", "")
    path = Path(named).expanduser() if named else _home(environment) / ".one" / "one_auth"
    session = _line(path)
    if ":" not in session:
        raise MerkatError(f"{path}: no login is there; a line with user:password is right")
    return session


def _home(environment: Mapping[str, str]) -> Path:
    home = environment.get("HOME")
    return Path(home) if home else Path.home()


def _line(path: Path) -> str:
    """The first line of a file, nothing where there is none."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return ""
    return lines[0].strip() if lines else ""

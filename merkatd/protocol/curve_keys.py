"""CURVE keys of the bus: the daemon's own pair, and one pair for each platform."""

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

import zmq
from zmq.utils import z85

FILE = "bus_key"


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A public key and its secret key, both encoded in Z85."""

    public: str
    secret: str = field(repr=False)


def fresh() -> KeyPair:
    """Return a new random pair."""
    public, secret = zmq.curve_keypair()
    return KeyPair(public.decode(), secret.decode())


def daemon_keys(directory: Path) -> KeyPair:
    """Return the daemon's pair, which stays the same across restarts.

    The pair is created at the first call. Raise PermissionError if other users can read the file,
    and ValueError if it contains no key.
    """
    path = directory / FILE
    try:
        secret = path.read_text().strip()
    except FileNotFoundError:
        return _made(path)
    if path.stat().st_mode & 0o077:
        raise PermissionError(f"other users can read {path}: its mode must be 0600")
    try:
        z85.decode(secret)
        return KeyPair(zmq.curve_public(secret.encode()).decode(), secret)
    except (ValueError, AssertionError, zmq.ZMQError):
        raise ValueError(
            f"{path} contains no valid key; remove it, and the daemon creates a new one"
        ) from None


def _made(path: Path) -> KeyPair:
    pair = fresh()
    # Write and rename, so that the file is never incomplete and never readable by other users.
    half = path.with_suffix(".new")
    half.unlink(missing_ok=True)
    with os.fdopen(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(f"{pair.secret}\n")
        file.flush()
        os.fsync(file.fileno())
    half.rename(path)
    return pair


@dataclass(frozen=True, slots=True, kw_only=True)
class Passport:
    """The addresses and keys that a platform's process needs to connect to the daemon."""

    asking: str
    """The address for requests."""
    listening: str
    """The address for publications."""
    daemon: str
    """The daemon's public key."""
    platform: int
    market: str
    role: str
    public: str
    secret: str = field(repr=False)

    def written(self) -> str:
        """Return the passport as text, to be sent to a process through a pipe."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, text: str) -> "Passport":
        """Return the passport that `written` encoded as this text."""
        return cls(**json.loads(text))


def passport_of(text: str) -> Passport:
    """Return the passport encoded in a text; raise ValueError if the text is invalid."""
    try:
        return Passport.read(text)
    except (TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"invalid passport: {error}") from None

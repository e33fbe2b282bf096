"""CURVE keys: the daemon's own, and one pair for each platform."""

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

import zmq
from zmq.utils import z85

FILE = "bus_key"


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A public key and its secret, in Z85."""

    public: str
    secret: str = field(repr=False)


def fresh() -> KeyPair:
    """A pair that nobody else has."""
    public, secret = zmq.curve_keypair()
    return KeyPair(public.decode(), secret.decode())


def daemon_keys(directory: Path) -> KeyPair:
    """The daemon's pair, the same at each start; only its own user can read the file."""
    path = directory / FILE
    try:
        secret = path.read_text().strip()
    except FileNotFoundError:
        return _made(path)
    if path.stat().st_mode & 0o077:
        raise PermissionError(f"{path} can be read by others: it must have mode 0600")
    try:
        z85.decode(secret)
        return KeyPair(zmq.curve_public(secret.encode()).decode(), secret)
    except (ValueError, AssertionError, zmq.ZMQError):
        raise ValueError(f"{path} holds no key; remove it, and a new one is made") from None


def _made(path: Path) -> KeyPair:
    pair = fresh()
    # Whole or not at all, and never readable by others.
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
    """All that a process needs to reach the daemon as one of a platform's."""

    asking: str
    """The address for questions,"""
    listening: str
    """and that of what is published."""
    daemon: str
    """The daemon's public key."""
    platform: int
    market: str
    role: str
    public: str
    secret: str = field(repr=False)

    def written(self) -> str:
        """As text, to be handed to a process through a pipe."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, text: str) -> "Passport":
        """The passport that was written so."""
        return cls(**json.loads(text))


def passport_of(text: str) -> Passport:
    """The passport that was handed over as this text; ValueError where it is none."""
    try:
        return Passport.read(text)
    except (TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"no passport: {error}") from None

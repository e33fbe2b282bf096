"""SSH keys of platforms' VMs: the monitors' login key, and each VM's host key.

A VM's host key is derived from a secret of the site and the VM's creation key. The daemon
computes it for the VM's contextualisation, and a monitor computes it to trust no other host. So
it is never stored.
"""

import base64
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

FILE: Final = "ssh_secret"
AUTHORISED, HOST_KEY = "MERKAT_SSH_KEY", "MERKAT_HOST_KEY"
"""Attributes added to a VM's template: the public key that may log in, and the private key of the
VM's sshd, in Base64 of OpenSSH's format. The template's CONTEXT passes them to the guest."""
_BYTES: Final = 32
_OURS: Final = "monitors"


@dataclass(frozen=True, slots=True)
class GuestKeys:
    """The source of all SSH keys of a site's VMs."""

    secret: bytes = field(repr=False)

    @property
    def ours(self) -> str:
        """Return the private key with which monitors log in, in OpenSSH's format."""
        return _private(self._key(_OURS))

    def handed(self, vm_key: str) -> Mapping[str, str]:
        """Return the key attributes for the template of the VM with this creation key."""
        host = base64.b64encode(_private(self._key(vm_key)).encode())
        return {AUTHORISED: _public(self._key(_OURS)), HOST_KEY: host.decode()}

    def host_key(self, vm_key: str) -> str:
        """Return the VM's public host key as `TYPE BASE64`."""
        return _public(self._key(vm_key))

    def _key(self, name: str) -> Ed25519PrivateKey:
        seed = blake2b(name.encode(), key=self.secret, digest_size=_BYTES, person=b"merkat guest")
        return Ed25519PrivateKey.from_private_bytes(seed.digest())


def guest_keys(directory: Path) -> GuestKeys:
    """Return the site's keys, which stay the same across restarts.

    The secret is created at the first call. Raise PermissionError if other users can read the
    file, and ValueError if it contains no secret.
    """
    path = directory / FILE
    try:
        secret = path.read_bytes()
    except FileNotFoundError:
        return GuestKeys(_made(path))
    if path.stat().st_mode & 0o077:
        raise PermissionError(f"other users can read {path}: its mode must be 0600")
    if len(secret) != _BYTES:
        raise ValueError(
            f"{path} must contain {_BYTES} bytes (got {len(secret)}); remove it, and the daemon"
            " creates a new one"
        )
    return GuestKeys(secret)


def _made(path: Path) -> bytes:
    secret = os.urandom(_BYTES)
    # Write and rename, so that the file is never incomplete and never readable by other users.
    half = path.with_suffix(".new")
    half.unlink(missing_ok=True)
    with os.fdopen(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(secret)
        file.flush()
        os.fsync(file.fileno())
    half.rename(path)
    return secret


def _private(key: Ed25519PrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()


def _public(key: Ed25519PrivateKey) -> str:
    return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()

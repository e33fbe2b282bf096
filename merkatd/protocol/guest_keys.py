"""Keys of platforms' VMs: what each is handed at its first boot, and what is then known of it.

A VM's host key is derived from a secret of the site and the key by which the VM was made. So
both the daemon, which hands it to the VM's contextualisation, and a monitor, which is to trust
no other, work it out, and nobody has to store it.
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
"""What a VM's template gets besides: the public key that may log in; the private key of its own
sshd, in Base64 of OpenSSH's format. Its CONTEXT hands them on to the guest by their names."""
_BYTES: Final = 32
_OURS: Final = "monitors"


@dataclass(frozen=True, slots=True)
class GuestKeys:
    """All keys of a site's VMs."""

    secret: bytes = field(repr=False)

    @property
    def ours(self) -> str:
        """The private key with which monitors log in, as OpenSSH writes it."""
        return _private(self._key(_OURS))

    def handed(self, vm_key: str) -> Mapping[str, str]:
        """Attributes for the template of the VM that is made by this key."""
        host = base64.b64encode(_private(self._key(vm_key)).encode())
        return {AUTHORISED: _public(self._key(_OURS)), HOST_KEY: host.decode()}

    def host_key(self, vm_key: str) -> str:
        """The public key by which the VM is known, `TYPE BASE64`."""
        return _public(self._key(vm_key))

    def _key(self, name: str) -> Ed25519PrivateKey:
        seed = blake2b(name.encode(), key=self.secret, digest_size=_BYTES, person=b"merkat guest")
        return Ed25519PrivateKey.from_private_bytes(seed.digest())


def guest_keys(directory: Path) -> GuestKeys:
    """The site's, the same at each start; only the daemon's own user can read the file."""
    path = directory / FILE
    try:
        secret = path.read_bytes()
    except FileNotFoundError:
        return GuestKeys(_made(path))
    if path.stat().st_mode & 0o077:
        raise PermissionError(f"{path} can be read by others: it must have mode 0600")
    if len(secret) != _BYTES:
        raise ValueError(f"{path} holds no secret; remove it, and a new one is made")
    return GuestKeys(secret)


def _made(path: Path) -> bytes:
    secret = os.urandom(_BYTES)
    # Whole or not at all, and never readable by others.
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

"""The certificate with which the tenants' interface speaks TLS."""

from pathlib import Path
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509 import load_pem_x509_certificates
from OpenSSL import SSL
from twisted.internet.interfaces import IOpenSSLContextFactory
from zope.interface import implementer  # type: ignore[import-untyped]  # it has no types

_CIPHERS = b"ECDHE+AESGCM:ECDHE+CHACHA20"
"""Those of TLS 1.2 of which a server computes only its signature, with the client's first message;
those of TLS 1.3 are so."""


class CertificateError(Exception):
    """The files hold no certificate with its key; the message says what would be right."""


@implementer(IOpenSSLContextFactory)
class ServerContext:
    """What a port needs to speak TLS 1.2 or newer. Raises CertificateError."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self._files = certificate, key
        self._context = _context_of(certificate, key)

    def getContext(self) -> SSL.Context:  # noqa: N802 - Twisted's name
        """The same for every connection, until there is a new certificate."""
        return self._context

    def renew(self) -> None:
        """Read the files anew, for connections from now on. Raises CertificateError."""
        self._context = _context_of(*self._files)


def _context_of(certificate: Path, key: Path) -> SSL.Context:
    """Return a context with a certificate, those that it was signed with, and its key."""
    try:
        own, *signers = load_pem_x509_certificates(_read(certificate))
    except ValueError:
        raise CertificateError(f"{certificate}: holds no certificate in PEM") from None
    context = SSL.Context(SSL.TLS_SERVER_METHOD)
    context.set_min_proto_version(SSL.TLS1_2_VERSION)
    context.set_options(SSL.OP_NO_RENEGOTIATION)
    context.set_cipher_list(_CIPHERS)
    try:
        context.use_certificate(own)
        for signer in signers:
            context.add_extra_chain_cert(signer)
        private: Any = load_pem_private_key(_read(key), password=None)
        context.use_privatekey(private)
        context.check_privatekey()
    except (SSL.Error, ValueError, TypeError, UnsupportedAlgorithm):
        raise CertificateError(
            f"{key}: holds no key of the certificate in {certificate}, in PEM and without a"
            " password"
        ) from None
    return context


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CertificateError(f"{path}: can't be read: {error.strerror}") from None

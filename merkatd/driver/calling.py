"""Calls to a server one after another, blocking: for commands, which have no loop to hold up."""

import http.client
import ssl
import xmlrpc.client
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Call = Callable[..., Any]
"""A method and its arguments, without the session: its value. Raises RefusedError, OSError."""


class RefusedError(Exception):
    """The server answered and would not, or can't be believed; the message says which."""


class _Patient(xmlrpc.client.Transport):
    """Waits for an answer only so long."""

    def __init__(self, limit_s: float) -> None:
        super().__init__(use_builtin_types=True)
        self._limit_s = limit_s

    def make_connection(self, host: Any) -> http.client.HTTPConnection:
        connection = super().make_connection(host)
        connection.timeout = self._limit_s
        return connection


class _PatientTls(xmlrpc.client.SafeTransport):
    """The same where the server's certificate is verified first."""

    def __init__(self, limit_s: float, context: ssl.SSLContext) -> None:
        super().__init__(use_builtin_types=True, context=context)
        self._limit_s = limit_s

    def make_connection(self, host: Any) -> http.client.HTTPSConnection:
        connection = super().make_connection(host)
        connection.timeout = self._limit_s
        return connection


@contextmanager
def calling(
    endpoint: str, session: str, limit_s: float, authorities: Path | None = None
) -> Iterator[Call]:
    """Calls to a server; behind https it is believed as the daemon would believe it.

    `authorities` is a file of certificates (PEM) that are trusted instead of the system's.
    """
    transport = _transport(endpoint, limit_s, authorities)
    server: Any = xmlrpc.client.ServerProxy(endpoint, transport=transport)

    def call(method: str, *arguments: Any) -> Any:
        try:
            reply = server.__getattr__(method)(session, *arguments)
        except (xmlrpc.client.Error, http.client.HTTPException) as error:
            raise RefusedError(f"{method}: {error}") from error
        match reply:
            case [True, value, *_]:
                return value
            case [False, text, *_]:
                raise RefusedError(str(text))
        raise RefusedError(f"{method}: this is no answer of OpenNebula: {str(reply)[:60]}")

    try:
        yield call
    finally:
        server("close")()


def _transport(endpoint: str, limit_s: float, authorities: Path | None) -> _Patient | _PatientTls:
    if not endpoint.startswith("https:"):
        return _Patient(limit_s)
    try:
        context = ssl.create_default_context(cafile=authorities)
    except ssl.SSLError:
        raise RefusedError(f"{authorities}: holds no certificate; PEM is right") from None
    except OSError as error:
        raise RefusedError(f"{authorities}: can't be read: {error.strerror}") from None
    return _PatientTls(limit_s, context)

"""Why a call failed, in one line with the way out."""

import http.client
import re
import socket
import ssl
import xmlrpc.client
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from merkat.settings import NO_ADDRESS, DaemonAddress
from merkatd.client import AuthenticationError, MerkatError, UnreachableError

_METHOD = re.compile(r"\[merkat\.[a-z.]+\] ")
_UNKNOWN_VM = re.compile(r"Error getting virtual machine \[(\d+)\]")
_UNKNOWN_METHOD = -506
_PERHAPS = "it may still carry out the command, or have done so: check before you repeat it"


def reason_of(error: MerkatError, address: DaemonAddress, login_file: Path) -> str:
    """Return why a call failed, and what to do about it."""
    if isinstance(error, AuthenticationError):
        return (
            f"the daemon at {address.endpoint} rejects the login in {login_file}: its first line"
            " must be your user:password, or user:token, of OpenNebula"
        )
    if isinstance(error, UnreachableError):
        return _unreachable(error, address)
    if error.code == _UNKNOWN_METHOD:
        return f"the daemon at {address.endpoint} is older than this command: {error}"
    words = _METHOD.sub("", str(error), count=1)
    if (unknown := _UNKNOWN_VM.search(words)) is not None:
        return f"no VM has the id {unknown[1]}; `merkat list vms` lists your VMs"
    return words


def _unreachable(error: UnreachableError, address: DaemonAddress) -> str:
    """Return why no valid answer arrived."""
    cause = error.__context__
    if isinstance(cause, xmlrpc.client.Fault | TypeError | None):
        return f"{address.endpoint} answers, but not as this version of merkatd: {error}"
    why = next((why for kind, why in _CAUSES if isinstance(cause, kind)), _no_xmlrpc)
    return f"{address.endpoint}: {why(cause, address)}"


def _no_xmlrpc(_cause: Any, address: DaemonAddress) -> str:
    return f"the answer is not XML-RPC: {_way_out(address)}"


_CAUSES: Sequence[tuple[type[Exception], Callable[[Any, DaemonAddress], str]]] = (
    (
        ssl.SSLCertVerificationError,
        lambda cause, _: (
            f"the server's certificate is not trusted ({cause.verify_message}): name the file"
            " with its authority's certificate in MERKAT_CERTIFICATE, or as certificate in"
            " ~/.config/merkat/config.toml"
        ),
    ),
    (
        ssl.SSLError,
        lambda cause, _: (
            f"TLS failed ({cause.reason}): the address of a server without TLS starts with http://"
        ),
    ),
    (socket.gaierror, lambda _, address: f"unknown host: {_way_out(address)}"),
    (TimeoutError, lambda *_: f"the daemon has not answered in time; {_PERHAPS}"),
    (
        http.client.RemoteDisconnected,
        lambda *_: (
            f"the server closed the connection; {_PERHAPS}. The address of a server with TLS"
            " starts with https://"
        ),
    ),
    (ConnectionResetError, lambda *_: f"the server closed the connection; {_PERHAPS}"),
    (
        http.client.BadStatusLine,
        lambda *_: "the answer is not HTTP: the address of a server with TLS starts with https://",
    ),
    (
        xmlrpc.client.ProtocolError,
        lambda cause, address: (
            f"the server answers {cause.errcode} {cause.errmsg}, not as merkatd:"
            f" {_way_out(address)}"
        ),
    ),
    (
        OSError,
        lambda cause, address: (
            f"no daemon answers ({cause.strerror or cause}): {_way_out(address)}"
        ),
    ),
)
"""What to say of each cause; the first matching type applies."""


def _way_out(address: DaemonAddress) -> str:
    """Return what to do about a wrong address."""
    if address.source is None:
        return f"no address is set, and this is the default; {NO_ADDRESS}"
    return f"check the address, which is from {address.source}"

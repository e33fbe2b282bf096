"""libvirt's Python module: its connections, and the meaning of its errors."""

import threading
from typing import Any

try:
    import libvirt
except ImportError:
    libvirt = None
_HOW = (
    "hypervisor.kind = 'libvirt' needs the Python package libvirt-python: pip install"
    " 'merkat[kvm]', which builds it with Debian's libvirt-dev, pkg-config and gcc"
)
_KEEPALIVE_COUNT = 3
"""The number of unanswered keepalive messages in a row that closes a connection."""
_lock = threading.Lock()
_running = False


class LibvirtMissingError(Exception):
    """libvirt's Python module is not installed; the message says how to install it."""


def require_libvirt() -> Any:
    """Return libvirt's module. Raise LibvirtMissingError if it is not installed."""
    if libvirt is None:
        raise LibvirtMissingError(_HOW)
    return libvirt


def opened(address: str, keepalive_s: int) -> Any:
    """Open a connection; it closes by itself when a remote machine no longer answers."""
    api = require_libvirt()
    _begin_events()
    connection = api.open(address)
    try:
        connection.setKeepAlive(keepalive_s, _KEEPALIVE_COUNT)
    except api.libvirtError:
        # Drivers inside this process have no peer to keep alive.
        return connection
    return connection


def _begin_events() -> None:
    """Start libvirt's event loop on a thread: libvirt sends keepalive messages from it."""
    global _running  # noqa: PLW0603 - one loop for the process, as libvirt wants it
    with _lock:
        if _running:
            return
        libvirt.virEventRegisterDefaultImpl()
        # Libvirt's own handler writes each error to standard error, besides raising it.
        libvirt.registerErrorHandler(lambda _context, _error: None, None)
        threading.Thread(target=_turn, name="libvirt-events", daemon=True).start()
        _running = True


def _turn() -> None:
    while True:
        libvirt.virEventRunDefaultImpl()


class HostAwayError(Exception):
    """A host can't be called now; the message gives the reason."""


class AbandonedError(Exception):
    """The work on a host was cancelled; the message gives the reason."""


class LibvirtRefusedError(Exception):
    """A host can't apply a change; the message gives the reason."""


def is_gone(error: Any) -> bool:
    """Return whether the guest ended during the call."""
    return bool(error.get_error_code() == require_libvirt().VIR_ERR_NO_DOMAIN)


def is_unsupported(error: Any) -> bool:
    """Return whether the driver does not support the call at all."""
    api = require_libvirt()
    return error.get_error_code() in {
        api.VIR_ERR_NO_SUPPORT,
        api.VIR_ERR_OPERATION_UNSUPPORTED,
        api.VIR_ERR_CONFIG_UNSUPPORTED,
    }


def error_line(error: BaseException) -> str:
    """Return an error's message as one line."""
    return " ".join(str(error).split()) or type(error).__name__

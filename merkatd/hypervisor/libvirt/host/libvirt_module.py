"""libvirt's own module: how connections are opened, and what its errors mean to us."""

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
"""So many questions in a row that nobody answers end a connection."""
_lock = threading.Lock()
_running = False


class LibvirtMissingError(Exception):
    """libvirt's Python module is not installed; the message says how to install it."""


def needed() -> Any:
    """Libvirt's module. Raises MissingError."""
    if libvirt is None:
        raise LibvirtMissingError(_HOW)
    return libvirt


def opened(address: str, keepalive_s: int) -> Any:
    """A connection; one to another machine ends by itself when that no longer answers."""
    api = needed()
    _begin_events()
    connection = api.open(address)
    try:
        connection.setKeepAlive(keepalive_s, _KEEPALIVE_COUNT)
    except api.libvirtError:
        # Drivers inside this process have nobody to keep alive.
        return connection
    return connection


def _begin_events() -> None:
    """Libvirt asks its peers whether they are alive from a loop that somebody has to turn."""
    global _running  # noqa: PLW0603 - one loop for the process, as libvirt wants it
    with _lock:
        if _running:
            return
        libvirt.virEventRegisterDefaultImpl()
        # It would write each error to standard error, beside raising it.
        libvirt.registerErrorHandler(lambda _context, _error: None, None)
        threading.Thread(target=_turn, name="libvirt-events", daemon=True).start()
        _running = True


def _turn() -> None:
    while True:
        libvirt.virEventRunDefaultImpl()


class AwayError(Exception):
    """A host can't be asked now; the message says why."""


class AbandonedError(Exception):
    """This work is not to go on; the message says why."""


class LibvirtRefusedError(Exception):
    """A host can't do what it was told; the message says why."""


def has_gone(error: Any) -> bool:
    """Whether the guest ended while it was asked."""
    return bool(error.get_error_code() == needed().VIR_ERR_NO_DOMAIN)


def has_no(error: Any) -> bool:
    """Whether the driver can't do such a thing at all."""
    api = needed()
    return error.get_error_code() in {
        api.VIR_ERR_NO_SUPPORT,
        api.VIR_ERR_OPERATION_UNSUPPORTED,
        api.VIR_ERR_CONFIG_UNSUPPORTED,
    }


def in_words(error: BaseException) -> str:
    """One line."""
    return " ".join(str(error).split()) or type(error).__name__

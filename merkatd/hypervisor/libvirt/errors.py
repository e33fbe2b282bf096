"""What libvirt's errors mean to us: a guest that has gone, a host that has, or a refusal."""

from typing import Any

from merkatd.hypervisor.libvirt import binding


class AwayError(Exception):
    """A host can't be asked now; the message says why."""


class AbandonedError(Exception):
    """This work is not to go on; the message says why."""


class RefusedError(Exception):
    """A host can't do what it was told; the message says why."""


def has_gone(error: Any) -> bool:
    """Whether the guest ended while it was asked."""
    return bool(error.get_error_code() == binding.needed().VIR_ERR_NO_DOMAIN)


def has_no(error: Any) -> bool:
    """Whether the driver can't do such a thing at all."""
    api = binding.needed()
    return error.get_error_code() in {
        api.VIR_ERR_NO_SUPPORT,
        api.VIR_ERR_OPERATION_UNSUPPORTED,
        api.VIR_ERR_CONFIG_UNSUPPORTED,
    }


def in_words(error: BaseException) -> str:
    """One line."""
    return " ".join(str(error).split()) or type(error).__name__

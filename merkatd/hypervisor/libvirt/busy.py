"""Guests that are moved in, saved or copied: whoever changes one then waits, up to half a minute.

A host does one thing after another for us, so all its other guests would wait as well. OpenNebula
says which VMs it moves; a guest may yet be on its way behind it, or by somebody else's hand. It is
asked only where there is a reason to think so: there is none in most periods.
"""

from merkatd.hypervisor.libvirt import binding
from merkatd.hypervisor.libvirt.errors import RefusedError
from merkatd.hypervisor.libvirt.guest import Guest
from merkatd.hypervisor.libvirt.host import Host


def busy(host: Host, guest: Guest) -> bool:
    """Whether a change of the guest would have to wait for somebody's work on it."""
    if guest.sight.free and not guest.held_up:
        return False
    api = binding.needed()
    try:
        job = host.call(host.handle(guest).jobStats)
    except api.libvirtError as error:
        # Of a guest that comes in only the host knows that it comes from.
        guest.held_up = error.get_error_code() == api.VIR_ERR_OPERATION_UNSUPPORTED
        if guest.held_up or error.get_error_code() == api.VIR_ERR_NO_SUPPORT:
            return guest.held_up
        raise
    # A backup lets others change the guest all the while.
    guest.held_up = (
        job.get("type", api.VIR_DOMAIN_JOB_NONE) != api.VIR_DOMAIN_JOB_NONE
        and job.get(api.VIR_DOMAIN_JOB_OPERATION) != api.VIR_DOMAIN_JOB_OPERATION_BACKUP
    )
    return guest.held_up


def needs_free(host: Host, guest: Guest) -> None:
    """Raises RefusedError where a change would have to wait."""
    if busy(host, guest):
        raise RefusedError(f"VM {guest.vm} is being moved, saved or copied on its host")


def waited_in_vain(error: object) -> bool:
    """Whether this is what libvirt says then."""
    code = getattr(error, "get_error_code", lambda: None)()
    return bool(code == binding.needed().VIR_ERR_OPERATION_TIMEOUT)

"""What tells hosts their limits."""

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import ensureDeferred

from merkatd.api.metrics.call_metrics import Load
from merkatd.config.model import Config
from merkatd.config.sections import HypervisorKind
from merkatd.hypervisor import EmbeddedHypervisors, UntouchedHypervisors
from merkatd.hypervisor.libvirt import Addresses, LibvirtHypervisors, MissingError
from merkatd.opennebula import Client
from merkatd.scheduler.base.ports import Hypervisors
from merkatd.scheduler.context import Executor
from merkatd.starting.closing import Closing
from merkatd.starting.errors import StartError


def hypervisors_of(
    reactor: Any,
    config: Config,
    client: Client,
    closing: Closing,
    loads: dict[str, Load],
    executor: Executor,
    surely: Callable[[], bool],
) -> Hypervisors:
    """What tells hosts their limits; where they are called, `loads` comes to count that.

    What goes through all VMs runs on `executor`. Hosts are told something while this daemon is
    `surely` the one that acts.
    """
    chosen = config.hypervisor
    if chosen.kind is HypervisorKind.EMBEDDED:
        return EmbeddedHypervisors(client, executor=executor)
    if chosen.kind is HypervisorKind.NONE:
        return UntouchedHypervisors()
    try:
        found = LibvirtHypervisors(
            reactor,
            Addresses(chosen.uri, chosen.uris),
            chosen,
            config.limits,
            goods=config.goods.further,
            executor=executor,
            surely=surely,
        )
    except MissingError as error:
        raise StartError(str(error)) from None
    closing.add("the hosts", lambda: ensureDeferred(found.close()))
    loads["hosts"] = found.lines
    return found

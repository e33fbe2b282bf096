"""Waiting for many hosts, up to a time limit."""

from collections.abc import Mapping
from typing import Any

from twisted.internet.defer import Deferred

from merkatd.base.clock import ThreadClock
from merkatd.hypervisor.libvirt.host.host_connection import CallProgress
from merkatd.hypervisor.libvirt.host.libvirt_module import AbandonedError


async def wait_for_hosts(
    reactor: ThreadClock,
    running: Mapping[int, Deferred[Any]],
    progress: Mapping[int, CallProgress],
    limit_s: float | None,
) -> Mapping[int, Any]:
    """Return each host's outcome; an AbandonedError for hosts that did not finish in time."""
    outcomes: dict[int, Any] = {}
    ended: Deferred[None] = Deferred()

    def note(outcome: Any, host: int) -> None:
        if ended.called:
            return
        outcomes[host] = outcome
        if len(outcomes) == len(running):
            ended.callback(None)

    def give_up() -> None:
        for host in running.keys() - outcomes.keys():
            progress[host].abandon()
            why = f"it did not finish within the {limit_s:g} s that a period waits"
            outcomes[host] = AbandonedError(why)
        ended.callback(None)

    for host, running_call in running.items():
        running_call.addCallback(note, host)
    if not running or ended.called:
        return outcomes
    timer = None if limit_s is None else reactor.callLater(limit_s, give_up)
    await ended
    if timer is not None and timer.active():
        timer.cancel()
    return outcomes

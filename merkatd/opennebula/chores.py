"""What servers up to 6.6 leave to their scheduler: running the actions that users scheduled."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from twisted.logger import Logger

from merkatd.opennebula.client import Client
from merkatd.opennebula.errors import OneError
from merkatd.opennebula.scheduled import Due, call, done, due_actions, failed, template

_log = Logger()


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A VM's scheduled actions."""

    vm: int
    made_s: float
    """When the VM was made: times that begin with + count from there."""
    actions: Sequence[Mapping[str, str]]


_MOST = 200
"""Actions that are run in a period."""
_TURN_S = 60.0


async def run_due(client: Client, scheduled: Sequence[Scheduled], now: float) -> None:
    """Run what is due, and write at each action what became of it. Raises UnreachableError.

    An action that is refused is tried again in the next period, as OpenNebula's own does. Of very
    many some are run in each period, in turns: refused ones keep no others from theirs.
    """
    if (await client.dialect()).runs_scheduled_actions:
        return
    found = [(one, due) for one in scheduled for due in due_actions(one.actions, now, one.made_s)]
    first = int(now / _TURN_S) * _MOST % len(found) if len(found) > _MOST else 0
    for one, due in [*found[first:], *found[:first]][:_MOST]:
        try:
            await _run(client, one, due, now)
        except OneError as error:
            _log.warn("{action} of VM {vm}: {why}", action=due.name, vm=one.vm, why=str(error))


async def _run(client: Client, one: Scheduled, due: Due, now: float) -> None:
    about = f"VM {one.vm} ({due.name}, scheduled)"
    try:
        method, arguments = call(due, one.vm)
        await client.call(method, *arguments, about=about)
    except (OneError, ValueError) as error:
        said = failed(due.action, now, str(error))
        _log.warn("{about}: {why}", about=about, why=str(error))
    else:
        said = done(due.action, now, one.made_s)
        _log.info("{about}: done", about=about)
    await client.call("one.vm.schedupdate", one.vm, due.id, template(said), about=about)

"""What the server says at this very moment: of itself, and of a host just before it is used."""

from collections.abc import Callable
from collections.abc import Set as AbstractSet

from merkatd.cluster import HostState, Step
from merkatd.opennebula.client import Client
from merkatd.opennebula.elements import BrokenError, UnreadableError, children, ids, one, whole
from merkatd.opennebula.errors import OneError, WrongStateError
from merkatd.opennebula.states import host_state
from merkatd.scheduler.ports import Answer, Reply, UnreachableError

_SOLO, _LEADER = 0, 3
_RETRY = 2
_FRESH_S = 2.0
"""So old may be what is known of a host: hundreds of VMs may go there one after another."""


async def leads(client: Client) -> bool:
    """Whether this server is alone or leads its zone: the others refuse what changes anything.

    Raises UnreachableError.
    """
    try:
        status = children(one(await client.call("one.zone.raftstatus"), "RAFT"))
        return whole(status, "STATE") in {_SOLO, _LEADER}
    except (OneError, BrokenError, UnreadableError) as error:
        raise UnreachableError(f"the server does not say whether it leads: {error}") from error


class HostsNow:
    """Hosts, each looked at shortly before something is sent there."""

    def __init__(self, client: Client, now: Callable[[], float]) -> None:
        self._client = client
        self._now = now
        self._seen: dict[int, tuple[float, int, frozenset[int]]] = {}

    async def why_not(self, host: int, known: AbstractSet[int], since_s: float) -> str | None:
        """Why nothing may be sent there: it takes nothing, or there are VMs that nobody counted.

        What was seen before `since_s` is looked at anew. Raises UnreachableError.
        """
        at_s, state, vms = self._seen.get(host, (-_FRESH_S, 0, frozenset()))
        if at_s < since_s or self._now() - at_s >= _FRESH_S:
            try:
                parts = children(one(await self._client.host(host), "HOST"))
                state, vms = whole(parts, "STATE"), frozenset(ids(parts.get("VMS", ())))
            except (OneError, UnreadableError) as error:
                return f"host {host} can't be looked at: {error}"
            except BrokenError as error:
                raise UnreachableError(f"host {host}: {error}") from error
            self._seen[host] = (self._now(), state, vms)
        if host_state(state) is not HostState.ON:
            return f"host {host} takes nothing any more"
        strangers = vms - known
        if strangers:
            return f"VM {min(strangers)} has come to host {host} meanwhile"
        return None


async def start_again(client: Client, step: Step) -> Reply:
    """Start a VM once more on the host where it failed to boot. Raises UnreachableError."""
    try:
        await client.call("one.vm.recover", step.vm, _RETRY, about=f"VM {step.vm}")
    except WrongStateError as error:
        return Reply(Answer.LOOK_AGAIN, str(error))
    except OneError as error:
        return Reply(Answer.REFUSED, str(error))
    return Reply(Answer.ACCEPTED)

"""The attribute MERKAT_ASLEEP of hosts that the daemon has switched off, and what it means.

# Note [Marks of hosts]

The attribute is the time since which a host sleeps, or `waking since` a time once the daemon has
woken it, or failed to switch it off. What the daemon may do depends on OpenNebula's state as well:

| State | asleep | waking |
|---|---|---|
| OFFLINE | it sleeps: the daemon may wake it | an administrator took it offline: remove the mark |
| ERROR | it is off: the daemon may wake it | it boots, or failed to: the daemon may wake it |
| MONITORED | it is on: remove the mark | the same |
| DISABLED | an administrator decides: mark it as waking | wait until it is enabled |
| INIT | unknown until OpenNebula has monitored it | the same |

Example: an administrator disables a sleeping host, and enables it again. Nothing has switched it
on, so OpenNebula finds an error. The daemon may wake it. If the administrator takes it offline
instead, for maintenance, it stays off.
"""

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import NamedTuple

from merkatd.opennebula.pools.host_pool import ASLEEP, HostRow
from merkatd.opennebula.pools.one_states import DISABLED, IN_ERROR, OFFLINE, TAKES_VMS

_WAKING = "waking since"


class Mark(Enum):
    """What the attribute of a host says."""

    NONE = auto()
    ASLEEP = auto()
    WAKING = auto()


def sleep_mark(since: str) -> str:
    """Return the template of a host that sleeps since this time."""
    return f'{ASLEEP}="{since}"'


def waking_mark(since: str) -> str:
    """Return the template of a host that was woken at this time."""
    return f'{ASLEEP}="{_WAKING} {since}"'


NO_MARK = f'{ASLEEP}=""'
"""The template of a host without the mark: oned ignores empty elements, not empty values."""


class MarkedState(NamedTuple):
    """A host's state in OpenNebula, and the text of its mark, empty without one."""

    state: int
    text: str

    @property
    def mark(self) -> Mark:
        """What the text says."""
        if not self.text:
            return Mark.NONE
        return Mark.WAKING if self.text.startswith(_WAKING) else Mark.ASLEEP

    @property
    def asleep(self) -> bool:
        """Whether the daemon has switched the host off, and it is not back."""
        if self.state == OFFLINE:
            return self.mark is Mark.ASLEEP
        return self.state in IN_ERROR and self.mark is not Mark.NONE

    @property
    def outlived(self) -> bool:
        """Whether the mark no longer means anything."""
        if self.state in DISABLED:
            return self.mark is Mark.ASLEEP
        if self.state == OFFLINE:
            return self.mark is Mark.WAKING
        return self.state in TAKES_VMS and self.mark is not Mark.NONE


def marked_state(state: int, values: Mapping[str, Sequence[str]]) -> MarkedState:
    """Return a host's state with its mark, which is among the values of its template."""
    return MarkedState(state, "".join(values.get(ASLEEP) or ()).strip())


def is_asleep(host: HostRow) -> bool:
    """Return whether the daemon has switched the host off, and it is not back."""
    return marked_state(host.state, host.facts.values).asleep


def sleeps_quietly(host: HostRow) -> bool:
    """Return whether the host is off as the daemon left it, which is no trouble."""
    return host.state == OFFLINE and is_asleep(host)


def marked_states(hosts: Sequence[HostRow]) -> Mapping[int, MarkedState]:
    """Return the states of hosts with a mark, by id."""
    states = ((host.id, marked_state(host.state, host.facts.values)) for host in hosts)
    return {host: state for host, state in states if state.text}

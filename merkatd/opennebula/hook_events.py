"""State changes that OpenNebula's hook manager publishes: hints to observe the cloud sooner.

From 5.12 on the hook manager sends each state change to all subscribers, in two frames: a key like
"EVENT STATE VM/ACTIVE/RUNNING/42 ", and a message that Merkat ignores. Events may be lost: they
only decide how soon the daemon notices a change.
"""

import asyncio
from collections.abc import Callable

import zmq
import zmq.asyncio
from twisted.logger import Logger

from merkatd.base.clock import Clock
from merkatd.scheduler.base.early_periods import GATHER_S

_log = Logger()

_TOPICS = (b"EVENT STATE VM/", b"EVENT STATE HOST/")
_VMS = frozenset(
    {
        "PENDING",
        "ACTIVE/RUNNING",
        "DONE",
        "STOPPED",
        "UNDEPLOYED",
        "SUSPENDED",
        "POWEROFF",
        "ACTIVE/UNKNOWN",
    }
)
"""VM states that change the resources to share; transitional states do not."""
_FAILURE = "FAILURE"
_KEPT = 1000
"""The most events that wait to be read; further events would add no information."""
_LONGEST_BYTES = 1 << 24
_AGAIN_MS, _AGAIN_MOST_MS = 100, 60_000


def is_reason_to_observe(key: bytes) -> bool:
    """Return whether an event is a reason to observe the cloud."""
    words = key.decode("ascii", "replace").split()
    if words[:2] != ["EVENT", "STATE"] or len(words) != 3:
        return False
    kind, _, rest = words[2].partition("/")
    parts = rest.split("/")
    if kind == "HOST":
        return len(parts) >= 2
    if kind != "VM" or len(parts) != 3:
        return False
    state, life, _ = parts
    return state in _VMS or f"{state}/{life}" in _VMS or life.endswith(_FAILURE)


class Events:
    """Listens for events until it is stopped, whether or not the server sends any."""

    def __init__(
        self,
        endpoint: str,
        clock: Clock,
        changed: Callable[[], object],
        *,
        gather_s: float = GATHER_S,
    ) -> None:
        """Call `changed` `gather_s` after an event that matters, once for all events until then."""
        self._clock = clock
        self._changed = changed
        self._gather_s = gather_s
        self._call: object = None
        self._context = zmq.asyncio.Context()
        self._socket = self._context.socket(zmq.SUB)
        self._socket.set(zmq.LINGER, 0)
        self._socket.set(zmq.RCVHWM, _KEPT)
        self._socket.set(zmq.MAXMSGSIZE, _LONGEST_BYTES)
        self._socket.set(zmq.RECONNECT_IVL, _AGAIN_MS)
        self._socket.set(zmq.RECONNECT_IVL_MAX, _AGAIN_MOST_MS)
        # Without keepalive, a server that vanishes silently would never be noticed.
        self._socket.set(zmq.TCP_KEEPALIVE, 1)
        for topic in _TOPICS:
            self._socket.subscribe(topic)
        self._socket.connect(endpoint)
        self._task = asyncio.get_running_loop().create_task(self._listen())

    async def _listen(self) -> None:
        while True:
            try:
                frames = await self._socket.recv_multipart()
            except zmq.ZMQError as error:
                _log.warn("An event can't be read: {why}", why=str(error))
                await asyncio.sleep(1)
                continue
            if frames and is_reason_to_observe(frames[0]) and self._call is None:
                self._call = self._clock.callLater(self._gather_s, self._tell)

    def _tell(self) -> None:
        self._call = None
        self._changed()

    def stop(self) -> None:
        """Stop listening."""
        if self._call is not None:
            self._call.cancel()  # type: ignore[attr-defined]
            self._call = None
        self._task.cancel()
        self._socket.close()
        self._context.term()

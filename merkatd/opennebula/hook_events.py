"""What happens at the server, as its hook manager publishes it: a reason to look sooner.

From 5.12 on the hook manager sends each change of state to whoever listens, in two frames: a
key, as "EVENT STATE VM/ACTIVE/RUNNING/42 ", and a message that nobody needs here. Events are
hints: they can be lost, and nothing depends on them but how soon something is seen.
"""

import asyncio
from collections.abc import Callable

import zmq
import zmq.asyncio
from twisted.logger import Logger

from merkatd.base.deferreds import Time

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
"""What VMs come to that changes what there is to share; what they pass through on the way
changes nothing."""
_FAILURE = "FAILURE"
_KEPT = 1000
"""Events that wait to be read; what comes on top says nothing new."""
_LONGEST_BYTES = 1 << 24
_AGAIN_MS, _AGAIN_MOST_MS = 100, 60_000


def matters(key: bytes) -> bool:
    """Whether an event is of something that calls for a look at the cloud."""
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
    """Listens for as long as it is not stopped, whether anybody speaks or not."""

    def __init__(
        self, endpoint: str, clock: Time, changed: Callable[[], object], *, gather_s: float = 0.5
    ) -> None:
        """Call `changed` so long after an event that mattered; those in between are one with it."""
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
        # A server that vanished without a word would be listened to for ever.
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
            if frames and matters(frames[0]) and self._call is None:
                self._call = self._clock.callLater(self._gather_s, self._tell)

    def _tell(self) -> None:
        self._call = None
        self._changed()

    def stop(self) -> None:
        """Listen no more."""
        if self._call is not None:
            self._call.cancel()  # type: ignore[attr-defined]
            self._call = None
        self._task.cancel()
        self._socket.close()
        self._context.term()

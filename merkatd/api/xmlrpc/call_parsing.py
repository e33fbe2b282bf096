"""Parsing of calls in turns, so that no caller's bytes block the event loop or other callers.

# Note [Pieces]
In a turn of the event loop, the daemon parses at most `_TURN_BYTES`, of all callers together; other
calls wait. Waiting calls are parsed piece by piece, with the keys in rotation.
Example: an address sends a hundred calls of 256 KiB, and another address sends a call of 3 KiB.
The small call is parsed after a piece of a large one: within a turn or two, so in milliseconds.
"""

from collections import OrderedDict, deque
from collections.abc import Hashable
from typing import Any

from twisted.internet.defer import Deferred

from merkatd.api.xmlrpc.codec import RpcCall, Taking, call_of
from merkatd.api.xmlrpc.errors import RpcFault

_PIECE_BYTES = 4_096
"""The size of a piece: it takes half a millisecond if every eighth byte is a tag."""
_TURN_BYTES = 4 * _PIECE_BYTES
_CALL_BYTES = 1_024
"""The bytes that a call counts in addition to its own, for its answer."""


class Parsing:
    """The parser of all calls."""

    def __init__(self, clock: Any, depth: int) -> None:
        self._clock = clock
        self._depth = depth
        self._left = _TURN_BYTES
        self._turn: Any = None
        """The next turn, if it is scheduled."""
        self._waiting: OrderedDict[Hashable, deque[_Job]] = OrderedDict()

    async def call_of(self, body: bytes, key: Hashable) -> RpcCall:
        """Return the call in these bytes, parsed in turns of this key. Raise RpcFault."""
        if len(body) + _CALL_BYTES <= self._left and not self._waiting:
            self._left -= len(body) + _CALL_BYTES
            self._need_a_turn()
            return call_of(body, self._depth)
        job = _Job(body, self._depth)
        self._waiting.setdefault(key, deque()).append(job)
        self._need_a_turn()
        return await job.done

    def _need_a_turn(self) -> None:
        if self._turn is None:
            self._turn = self._clock.callLater(0, self._begin_turn)

    def _begin_turn(self) -> None:
        self._turn, self._left = None, _TURN_BYTES
        while self._waiting and self._left > 0:
            key, jobs = next(iter(self._waiting.items()))
            self._left -= jobs[0].go_on()
            self._waiting.move_to_end(key)
            if jobs[0].is_over:
                ended = jobs.popleft()
                self._left -= _CALL_BYTES
                if not jobs:
                    del self._waiting[key]
                ended.tell()
        if self._waiting:
            self._need_a_turn()


class _Job:
    """A call that is parsed in pieces."""

    def __init__(self, body: bytes, depth: int) -> None:
        self.done: Deferred[RpcCall] = Deferred(self._drop)
        self.is_over = False
        self._body = body
        self._read = 0
        self._taking = Taking(depth)
        self._fault: RpcFault | None = None

    def go_on(self) -> int:
        """Parse a piece and return its number of bytes."""
        piece = self._body[self._read : self._read + _PIECE_BYTES]
        self._read += len(piece)
        self.is_over = self._read >= len(self._body)
        try:
            self._taking.feed(piece, last=self.is_over)
        except RpcFault as fault:
            self._fault, self.is_over = fault, True
        return len(piece)

    def tell(self) -> None:
        """Fire the Deferred with the call, or with the fault."""
        if self.done.called:
            return
        try:
            if self._fault is not None:
                raise self._fault
            call = self._taking.call()
        except RpcFault as fault:
            self.done.errback(fault)
        else:
            self.done.callback(call)

    def _drop(self, _done: object) -> None:
        """Stop parsing: an answer would be too late."""
        self._body = b""

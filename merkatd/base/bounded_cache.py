"""A cache of a function's results, bounded in bytes."""

from collections.abc import Callable, Hashable
from hashlib import blake2b
from threading import Lock
from typing import Generic, TypeVar

Given = TypeVar("Given")
Value = TypeVar("Value")

_OF_AN_ENTRY = 200
"""Bytes of an entry besides its key and its result."""


class BoundedCache(Generic[Given, Value]):
    """A function with a cache of its results. Any thread may call it.

    The bound is in bytes because a bound in entries says little: 1,024 texts of 64 KiB take
    64 MiB, and their parsed values take many times that.
    """

    def __init__(
        self,
        make: Callable[[Given], Value],
        size: Callable[[Given, Value], int],
        most_bytes: int,
        key: Callable[[Given], Hashable] = lambda given: given,
    ) -> None:
        """`size` returns the approximate number of bytes of a key and its result."""
        self._make, self._size, self._most_bytes, self._key = make, size, most_bytes, key
        self._kept: dict[Hashable, tuple[Value, int]] = {}
        self._keys: list[Hashable] = []
        self._random = 1
        self._lock = Lock()
        self.bytes = 0
        """The bytes of all cached entries."""

    def __call__(self, given: Given) -> Value:
        """Return the result, from the cache if it is cached."""
        key = self._key(given)
        entry = self._kept.get(key)
        return self._add(key, given) if entry is None else entry[0]

    def cache_clear(self) -> None:
        """Drop all entries."""
        with self._lock:
            self._kept, self._keys, self.bytes = {}, [], 0

    def _add(self, key: Hashable, given: Given) -> Value:
        made = self._make(given)
        taken = self._size(given, made) + _OF_AN_ENTRY
        with self._lock:
            if key not in self._kept and taken <= self._most_bytes:
                self.bytes += taken
                while self.bytes > self._most_bytes:
                    self._drop_any()
                self._kept[key] = made, taken
                self._keys.append(key)
        return made

    # Note [Random eviction]
    # When the bytes are used up, `_drop_any` drops a random entry. Each period reads all keys in
    # the same order as the period before. If the oldest entry were dropped first, each result
    # would be dropped just before it is needed again: of 400 results in a cache with room for
    # 390, none would ever be found. With random eviction, most of the 400 are found.

    def _drop_any(self) -> None:
        # A cheap generator is enough: no result depends on these numbers.
        self._random = self._random * 6364136223846793005 + 1442695040888963407 & 2**64 - 1
        at = (self._random >> 33) % len(self._keys)
        key, self._keys[at] = self._keys[at], self._keys[-1]
        self._keys.pop()
        _, taken = self._kept.pop(key)
        self.bytes -= taken


def digest(text: str) -> bytes:
    """Return a short key for a long text."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()

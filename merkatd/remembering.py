"""Results that are kept by what they are made of, at most so many bytes of it."""

from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

_OF_AN_ENTRY = 200
"""Bytes that an entry takes besides its key."""


class Remembered(Generic[Key, Value]):
    """A function whose results are kept. It may be called from any thread.

    A cache that counts its entries holds as much as the largest of them allow: 1,024 texts of
    64 KiB are 64 MiB, and what was parsed of them is many times that.
    """

    def __init__(
        self, make: Callable[[Key], Value], size: Callable[[Key], int], most_bytes: int
    ) -> None:
        """`size` returns about how many bytes a key and its result take."""
        self._make, self._size, self._most_bytes = make, size, most_bytes
        self._kept: dict[Key, Value] = {}
        self._lock = Lock()
        self.bytes = 0
        """What is kept now."""

    def __call__(self, key: Key) -> Value:
        """Return the result, from the cache where it is there."""
        found = self._kept.get(key)
        return self._add(key) if found is None else found

    def cache_clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._kept, self.bytes = {}, 0

    def _add(self, key: Key) -> Value:
        made = self._make(key)
        taken = self._size(key) + _OF_AN_ENTRY
        with self._lock:
            if key not in self._kept and taken <= self._most_bytes:
                self.bytes += taken
                # The oldest go first.
                while self.bytes > self._most_bytes:
                    oldest = next(iter(self._kept))
                    del self._kept[oldest]
                    self.bytes -= self._size(oldest) + _OF_AN_ENTRY
                self._kept[key] = made
        return made

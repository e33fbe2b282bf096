"""Results that are kept by what they are made of, at most so many bytes of it."""

from collections.abc import Callable, Hashable
from hashlib import blake2b
from threading import Lock
from typing import Generic, TypeVar

Given = TypeVar("Given")
Value = TypeVar("Value")

_OF_AN_ENTRY = 200
"""Bytes that an entry takes besides its key and its result."""


class Remembered(Generic[Given, Value]):
    """A function whose results are kept. It may be called from any thread.

    A cache that counts its entries holds as much as the largest of them allow: 1,024 texts of
    64 KiB are 64 MiB, and what was parsed of them is many times that.
    """

    def __init__(
        self,
        make: Callable[[Given], Value],
        size: Callable[[Given, Value], int],
        most_bytes: int,
        key: Callable[[Given], Hashable] = lambda given: given,
    ) -> None:
        """`size` returns about how many bytes a key and its result take."""
        self._make, self._size, self._most_bytes, self._key = make, size, most_bytes, key
        self._kept: dict[Hashable, tuple[Value, int]] = {}
        self._keys: list[Hashable] = []
        self._random = 1
        self._lock = Lock()
        self.bytes = 0
        """What is kept now."""

    def __call__(self, given: Given) -> Value:
        """Return the result, from the cache where it is there."""
        key = self._key(given)
        found = self._kept.get(key)
        return self._add(key, given) if found is None else found[0]

    def cache_clear(self) -> None:
        """Forget all."""
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

    # Note [What goes when the bytes are used up]
    # A period asks for everything in the same order as the one before. If the oldest went first,
    # each result would go just before it is asked for again: of 400 results in a cache for 390
    # none would be found. So any may go, and of these 400 most are found.

    def _drop_any(self) -> None:
        # A generator of numbers that no result depends on: it has to be cheap, and nothing more.
        self._random = self._random * 6364136223846793005 + 1442695040888963407 & 2**64 - 1
        at = (self._random >> 33) % len(self._keys)
        key, self._keys[at] = self._keys[at], self._keys[-1]
        self._keys.pop()
        _, taken = self._kept.pop(key)
        self.bytes -= taken


def digest(text: str) -> bytes:
    """Return a key for a text that is much shorter than the text."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()

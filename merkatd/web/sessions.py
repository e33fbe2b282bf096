"""Who is signed in. Without the visitor's cookie nobody can read a login, also not from memory."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

_MOST_KEPT = 10_000
_TOKEN_BYTES = 32
_ONCE = bytes(12)
"""Each key seals one login: it needs no other nonce."""


@dataclass(frozen=True, slots=True)
class Session:
    """One visitor, as long as it stays signed in."""

    login: str
    form: str
    """What each of its forms brings along: a foreign page does not know it."""
    name: bytes
    """What it is called here; its token can't be found from that."""

    def __repr__(self) -> str:
        return "Session()"


@dataclass(slots=True)
class _Kept:
    sealed: bytes
    until_s: float
    idle_until_s: float

    def over(self, now_s: float) -> bool:
        return now_s >= min(self.until_s, self.idle_until_s)


class Sessions:
    """All sessions, under what their tokens hash to."""

    def __init__(self, seconds: Callable[[], float], *, longest_s: float, idle_s: float) -> None:
        self._seconds = seconds
        self._longest_s = longest_s
        self._idle_s = idle_s
        self._kept: dict[bytes, _Kept] = {}

    def begin(self, login: str) -> str:
        """A new session; the token is the visitor's alone."""
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        now_s = self._seconds()
        if len(self._kept) >= _MOST_KEPT:
            self._forget(now_s)
        sealed = ChaCha20Poly1305(_derived(token, b"seal")).encrypt(_ONCE, login.encode(), None)
        self._kept[_derived(token, b"name")] = _Kept(
            sealed, now_s + self._longest_s, now_s + self._idle_s
        )
        return token

    def of(self, token: str, *, by_hand: bool) -> Session | None:
        """The session of this token; what a page fetches by itself keeps none alive."""
        name = _derived(token, b"name")
        kept = self._kept.get(name)
        now_s = self._seconds()
        if kept is None or kept.over(now_s):
            self._kept.pop(name, None)
            return None
        try:
            login = ChaCha20Poly1305(_derived(token, b"seal")).decrypt(_ONCE, kept.sealed, None)
        except InvalidTag:
            return None
        if by_hand:
            kept.idle_until_s = now_s + self._idle_s
        return Session(login.decode(), _derived(token, b"form").hex(), name)

    def alive(self, session: Session) -> bool:
        """Whether it is not over yet."""
        kept = self._kept.get(session.name)
        return kept is not None and not kept.over(self._seconds())

    def end(self, session: Session) -> None:
        """The visitor leaves."""
        self._kept.pop(session.name, None)

    def _forget(self, now_s: float) -> None:
        """Drop those that are over, and where there is none the one that has been there longest."""
        self._kept = {name: kept for name, kept in self._kept.items() if not kept.over(now_s)}
        while len(self._kept) >= _MOST_KEPT:
            del self._kept[next(iter(self._kept))]


def _derived(token: str, what: bytes) -> bytes:
    return blake2b(token.encode(), digest_size=32, person=what).digest()

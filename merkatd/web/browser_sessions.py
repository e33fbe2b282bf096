"""Sessions of visitors. A login in memory can be decrypted only with the visitor's cookie."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

MOST_KEPT = 10_000
"""The most sessions of all users together."""
_TOKEN_BYTES = 32
_ONCE = bytes(12)
"""The nonce: a constant is safe because each key encrypts only one login."""


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """A visitor's session."""

    login: str
    form: str
    """The secret in each of its forms, which other sites don't know."""
    name: bytes
    """The hash of its token, from which the token can't be computed."""

    def __repr__(self) -> str:
        return "Session()"


@dataclass(slots=True)
class _StoredSession:
    user: int
    sealed: bytes
    until_s: float
    idle_until_s: float
    said: tuple[str, str] = ("", "")
    """A page's address, and the sentence that it shows once."""

    def over(self, now_s: float) -> bool:
        return now_s >= min(self.until_s, self.idle_until_s)


class BrowserSessions:
    """All sessions by the hash of their token, with a limit for each user."""

    def __init__(
        self,
        seconds: Callable[[], float],
        *,
        longest_s: float,
        idle_s: float,
        most_per_user: int,
    ) -> None:
        self._seconds = seconds
        self._longest_s = longest_s
        self._idle_s = idle_s
        self._most_per_user = most_per_user
        self._kept: dict[bytes, _StoredSession] = {}
        self._of_user: dict[int, list[bytes]] = {}
        """By user, the names of the user's sessions, the oldest first."""

    def begin(self, login: str, user: int, instead_of: str = "") -> str:
        """Start a session and end the one of the token `instead_of`; return the new token.

        If the user has too many sessions, that user's oldest one ends.
        """
        if instead_of:
            self._drop(_derived(instead_of, b"name"))
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        now_s = self._seconds()
        self._make_room(user, now_s)
        sealed = ChaCha20Poly1305(_derived(token, b"seal")).encrypt(_ONCE, login.encode(), None)
        name = _derived(token, b"name")
        self._kept[name] = _StoredSession(
            user, sealed, now_s + self._longest_s, now_s + self._idle_s
        )
        self._of_user.setdefault(user, []).append(name)
        return token

    def of(self, token: str, *, by_hand: bool) -> BrowserSession | None:
        """Return the session of this token; only requests `by_hand` reset its idle time."""
        name = _derived(token, b"name")
        kept = self._kept.get(name)
        now_s = self._seconds()
        if kept is None or kept.over(now_s):
            self._drop(name)
            return None
        try:
            login = ChaCha20Poly1305(_derived(token, b"seal")).decrypt(_ONCE, kept.sealed, None)
        except InvalidTag:
            return None
        if by_hand:
            kept.idle_until_s = now_s + self._idle_s
        return BrowserSession(login.decode(), _derived(token, b"form").hex(), name)

    def alive(self, session: BrowserSession) -> bool:
        """Return whether the session has not ended."""
        kept = self._kept.get(session.name)
        return kept is not None and not kept.over(self._seconds())

    def say(self, session: BrowserSession, path: str, text: str) -> None:
        """Keep what an order of the session did, until it opens the page at this path."""
        kept = self._kept.get(session.name)
        if kept is not None:
            kept.said = (path, text)

    def said(self, session: BrowserSession, path: str) -> str:
        """Return what `say` kept for the page at this path, once; "" if there is nothing."""
        kept = self._kept.get(session.name)
        if kept is None or kept.said[0] != path:
            return ""
        _, text = kept.said
        kept.said = ("", "")
        return text

    def end(self, session: BrowserSession) -> None:
        """End the session: the visitor signs out."""
        self._drop(session.name)

    def _make_room(self, user: int, now_s: float) -> None:
        """End the user's oldest sessions; at `MOST_KEPT`, those of the user with most sessions."""
        for name in [name for name in self._of_user.get(user, ()) if self._kept[name].over(now_s)]:
            self._drop(name)
        while len(self._of_user.get(user, ())) >= self._most_per_user:
            self._drop(self._of_user[user][0])
        if len(self._kept) < MOST_KEPT:
            return
        for name in [key for key, kept in self._kept.items() if kept.over(now_s)]:
            self._drop(name)
        while len(self._kept) >= MOST_KEPT:
            self._drop(max(self._of_user.values(), key=len)[0])

    def _drop(self, name: bytes) -> None:
        kept = self._kept.pop(name, None)
        if kept is None:
            return
        names = self._of_user[kept.user]
        names.remove(name)
        if not names:
            del self._of_user[kept.user]


def _derived(token: str, what: bytes) -> bytes:
    return blake2b(token.encode(), digest_size=32, person=what).digest()

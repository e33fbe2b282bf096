"""Sessions: whose process is speaking, and that it never says the same message twice."""

from dataclasses import dataclass


class StaleError(Exception):
    """A message of no session that is open here: who sent it must say `Hello` again."""


class ReplayedError(Exception):
    """A message whose number was used before."""


@dataclass(slots=True)
class Session:
    """One process, from its `Hello` on."""

    token: str
    platform: int
    role: str
    route: bytes
    """Of its connection."""
    heard_s: float
    last: int = 0
    """The highest number so far."""

    def take(self, number: int) -> None:
        """Count a message in; ReplayedError where it is not a new one."""
        if number <= self.last:
            raise ReplayedError(f"number {number} came after {self.last}")
        self.last = number


class Sessions:
    """All that are open: at most one for each role of a platform."""

    def __init__(self) -> None:
        self._by_token: dict[str, Session] = {}
        self._by_role: dict[tuple[int, str], Session] = {}

    def open(self, session: Session) -> None:
        """The newest process of a role has it; the one before is heard no more."""
        role = (session.platform, session.role)
        before = self._by_role.pop(role, None)
        if before is not None:
            del self._by_token[before.token]
        self._by_role[role] = self._by_token[session.token] = session

    def find(self, token: str, platform: int, route: bytes) -> Session:
        """The session of a message that came this way; StaleError where there is none such."""
        session = self._by_token.get(token)
        # A token is worth nothing to other platforms, nor on another connection.
        if session is None or session.platform != platform or session.route != route:
            raise StaleError("no such session of yours is open here")
        return session

    def heard_s(self, platform: int, role: str) -> float | None:
        """When this process was last heard, None where it has no session."""
        session = self.of(platform, role)
        return None if session is None else session.heard_s

    def of(self, platform: int, role: str) -> Session | None:
        """The session of this process, None where it has none."""
        return self._by_role.get((platform, role))

    def close(self, platform: int) -> None:
        """Close all of a platform."""
        for role in [one for one in self._by_role if one[0] == platform]:
            del self._by_token[self._by_role.pop(role).token]

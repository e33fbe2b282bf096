"""What the daemon fails to look after: each is told once, with its traceback, and others go on."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from twisted.logger import Logger
from twisted.python.failure import Failure

_LONGEST = 500
"""Characters of a reason that are kept."""

_log = Logger()


class TroubleKind(StrEnum):
    """What can be looked after one by one."""

    PLATFORM = "platform"
    GROUP = "group"
    TENANT = "tenant"


class Troubles:
    """What was not looked after when that was tried last, and why."""

    def __init__(self) -> None:
        self._why: dict[tuple[TroubleKind, str], dict[int, str]] = {}
        """By kind and work: by id, why the work failed."""

    def note(self, kind: TroubleKind, work: str, failed: Mapping[int, Exception]) -> None:
        """Take these for all that failed in a work that was done just now."""
        before = self._why.get((kind, work), {})
        now = {one: _text(error) for one, error in failed.items()}
        for one, why in now.items():
            if before.get(one) != why:
                # Twisted's failures have no types.
                traced: Any = Failure(failed[one])  # type: ignore[no-untyped-call]
                _log.failure(
                    "{kind} {id} could not be {work}; others go on",
                    traced,
                    kind=str(kind).capitalize(),
                    id=one,
                    work=work,
                )
        self._why[kind, work] = now

    def of(self, kind: TroubleKind) -> Mapping[int, str]:
        """Return by id why each of a kind is not looked after."""
        found: dict[int, str] = {}
        for (of, _), failed in self._why.items():
            if of is kind:
                found |= failed
        return found

    def why(self, kind: TroubleKind, one: int) -> str | None:
        """Return why one of a kind is not looked after; None where it is."""
        return self.of(kind).get(one)


def _text(error: Exception) -> str:
    said = f"{type(error).__name__}: {error}"
    return said if len(said) <= _LONGEST else f"{said[:_LONGEST]}..."

"""Failed work on single platforms, groups and tenants: logged once each, while others continue."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from twisted.logger import Logger
from twisted.python.failure import Failure

_LONGEST = 500
"""The longest stored reason, in characters."""

_log = Logger()


class TroubleKind(StrEnum):
    """Kinds of things that the daemon works on one by one."""

    PLATFORM = "platform"
    GROUP = "group"
    TENANT = "tenant"


class Troubles:
    """The latest failures of work on single things, with reasons."""

    def __init__(self) -> None:
        self._why: dict[tuple[TroubleKind, str], dict[int, str]] = {}
        """By kind and work: the reason of each failure, by id."""

    def note(self, kind: TroubleKind, work: str, failed: Mapping[int, Exception]) -> None:
        """Replace the failures of a work that has just been done; log the new ones."""
        before = self._why.get((kind, work), {})
        now = {number: _text(error) for number, error in failed.items()}
        for number, why in now.items():
            if before.get(number) != why:
                # Twisted's failures have no types.
                traced: Any = Failure(failed[number])  # type: ignore[no-untyped-call]
                _log.failure(
                    "{kind} {id} could not be {work}; others go on",
                    traced,
                    kind=str(kind).capitalize(),
                    id=number,
                    work=work,
                )
        self._why[kind, work] = now

    def of(self, kind: TroubleKind) -> Mapping[int, str]:
        """Return the reasons of failures of a kind, by id."""
        merged: dict[int, str] = {}
        for (of, _), failed in self._why.items():
            if of is kind:
                merged |= failed
        return merged

    def why(self, kind: TroubleKind, number: int) -> str | None:
        """Return why the work on one thing failed; None if it did not."""
        return self.of(kind).get(number)


def _text(error: Exception) -> str:
    text = f"{type(error).__name__}: {error}"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."

"""Failed work on single platforms, groups, tenants and markets, and refused steps.

The others continue. The log has each failure once.
"""

from collections.abc import Hashable, Mapping
from enum import StrEnum
from typing import Any

from twisted.logger import Logger
from twisted.python.failure import Failure

_LONGEST = 500
"""The longest stored reason, in characters."""
_MOST_REFUSALS = 20_000
"""The most things whose last refusal is remembered."""

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


class FailedMarkets:
    """The mistakes of markets' strategies, so that the log has each once while it lasts."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], int] = {}
        """By market and mistake: the period that saw it last."""

    def note(self, market: str, mistake: str, period: int) -> bool:
        """Note a mistake; return whether neither this period nor the last one has seen it."""
        last = self._seen.get((market, mistake))
        self._seen = {key: seen for key, seen in self._seen.items() if seen >= period - 1}
        self._seen[market, mistake] = period
        return last is None or last < period - 1


class LastRefusals:
    """The last refusal of each step or wish of a strategy, so that the log has each once.

    A strategy may ask for the same again after any number of periods. So a refusal counts until the
    step is done or is refused for another reason.
    """

    def __init__(self, most: int = _MOST_REFUSALS) -> None:
        """Remember the refusals of at most so many things; the oldest is forgotten first."""
        self._why: dict[Hashable, str] = {}
        self._most = most

    def note(self, thing: Hashable, why: str) -> bool:
        """Note why a thing is refused, or "" if it is not; return whether the refusal is new."""
        before = self._why.pop(thing, "")
        if not why:
            return False
        self._why[thing] = why[:_LONGEST]
        if len(self._why) > self._most:
            del self._why[next(iter(self._why))]
        return before != self._why[thing]

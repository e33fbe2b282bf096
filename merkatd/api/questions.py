"""What a running daemon can be asked, whatever door the question came through."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import numpy as np
import sqlalchemy as sa

from merkatd.cluster.json_form import dumps
from merkatd.database import accounts, audit, decisions, periods
from merkatd.database.accounts import AccountKind
from merkatd.scheduler.charge import MICRO
from merkatd.scheduler.period import Scheduler


class QuestionError(Exception):
    """A question that can't be answered; the message says what would be right."""


class Questions(Protocol):
    """Answers questions by name."""

    async def answer(self, question: str, arguments: Mapping[str, Any]) -> Any:
        """A value that JSON can carry. Raises QuestionError."""


class DaemonQuestions:
    """The questions of a daemon with its scheduler."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._known: Mapping[str, Callable[[Mapping[str, Any]], Awaitable[Any]]] = {
            "status": self._status,
            "pause": self._pause,
            "resume": self._resume,
            "snapshot": self._snapshot,
            "steps": self._steps,
            "accounts": self._accounts,
        }

    async def answer(self, question: str, arguments: Mapping[str, Any]) -> Any:
        """The answer to a question of this name."""
        found = self._known.get(question)
        if found is None:
            known = ", ".join(sorted(self._known))
            raise QuestionError(f"nobody knows the question {question!r}; known are {known}")
        return await found(arguments)

    async def _status(self, _arguments: Mapping[str, Any]) -> dict[str, Any]:
        """How the daemon is, and the latest prices."""
        scheduler = self._scheduler
        latest = scheduler.latest

        def read(connection: sa.Connection) -> dict[str, Any]:
            newest = periods.newest(connection)
            return {
                "outstanding_steps": len(decisions.outstanding(connection)),
                "newest_period": None if newest is None else newest.number,
                "newest_state": None if newest is None else str(newest.state),
                "accounts_sound": audit.audit(connection).sound,
            }

        stored = await scheduler.world.database.read(read)
        return stored | {
            "paused": scheduler.paused,
            "failures": scheduler.failures,
            "period": None if latest is None else latest.period,
            "at_s": None if latest is None else latest.at_s,
            "prices": None if latest is None else _finite(latest.prices),
            "hosts": None if latest is None else len(latest.seen.snapshot.hosts),
            "vms": None if latest is None else len(latest.seen.snapshot.vms),
        }

    async def _pause(self, _arguments: Mapping[str, Any]) -> bool:
        """Begin no more periods until told to resume."""
        self._scheduler.paused = True
        return True

    async def _resume(self, _arguments: Mapping[str, Any]) -> bool:
        """Go on."""
        self._scheduler.paused = False
        return True

    async def _snapshot(self, _arguments: Mapping[str, Any]) -> str:
        """What the latest decision was made from, as JSON text."""
        if self._scheduler.latest is None:
            raise QuestionError("there was no period yet")
        return dumps(self._scheduler.latest.seen.snapshot)

    async def _steps(self, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The newest steps, of one VM where `vm` is given."""
        vm, limit = _whole(arguments, "vm"), _whole(arguments, "limit")
        wanted = decisions.Wanted(vm=vm)
        rows = await self._scheduler.world.database.read(
            lambda connection: decisions.recent(connection, wanted, limit or 50)
        )
        return [
            {
                "id": row.id,
                "period": row.step.period,
                "kind": row.step.kind,
                "vm": row.step.vm,
                "state": str(row.state),
                "reason": row.step.reason,
                "reply": row.reply,
            }
            for row in rows
        ]

    async def _accounts(self, _arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Every tenant's balance in credits."""
        rows = await self._scheduler.world.database.read(
            lambda connection: accounts.every(connection, AccountKind.TENANT)
        )
        return [{"owner": row.owner, "credits": row.balance / MICRO} for row in rows]


def _whole(arguments: Mapping[str, Any], name: str) -> int | None:
    value = arguments.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise QuestionError(f"{name}: {value!r}: a whole number from 0 on is right")
    return value


def _finite(prices: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float | None]]:
    """JSON has no infinity: no price clears is null."""
    return {
        market: {name: one if np.isfinite(one) else None for name, one in by_resource.items()}
        for market, by_resource in prices.items()
    }

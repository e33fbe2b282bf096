"""What is to be done by when: platforms, and whatever else tells the page of its deadlines."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """Work with a deadline. Times are seconds since the epoch."""

    name: str
    owner: int
    state: str
    platform: int | None = None
    """Its id, where it is a platform."""
    vms: int = 0
    began_s: float | None = None
    deadline_s: float | None = None
    projected_end_s: float | None = None
    done: float | None = None
    """The part of its work that is done."""
    on_track: bool | None = None
    ended_s: float | None = None
    """When it was over, if it is."""
    text: str = ""
    """How it fares, in words."""

    def passed(self, now_s: float) -> float | None:
        """The part of its time that has passed."""
        if self.began_s is None or self.deadline_s is None or self.deadline_s <= self.began_s:
            return None
        return (now_s - self.began_s) / (self.deadline_s - self.began_s)


Tell = Callable[[], Sequence[Goal]]


class Goals:
    """What others than platforms tell of."""

    def __init__(self) -> None:
        self._telling: list[Tell] = []

    def also(self, tell: Tell) -> None:
        """Ask this one too from now on."""
        self._telling.append(tell)

    def told(self) -> list[Goal]:
        """All that they tell of now."""
        return [goal for tell in self._telling for goal in tell()]


OVER = frozenset({"done", "cancelled", "failed"})
"""The states of platforms that are."""


def of_platform(row: dict[str, Any]) -> Goal:
    """The goal of a platform, as it is listed."""
    ended_s = row["since_s"] if row["state"] in OVER else None
    return Goal(
        name=row["name"],
        owner=row["owner"],
        state=row["state"],
        platform=row["id"],
        vms=row["size"],
        began_s=row["started_s"] or row["submitted_s"],
        deadline_s=row["deadline_s"],
        projected_end_s=row["projected_end_s"] if ended_s is None else ended_s,
        done=row["done"],
        on_track=row["on_track"] if ended_s is None else _kept(row),
        ended_s=ended_s,
        text=row["report"] or row["why"] or "",
    )


def _kept(row: dict[str, Any]) -> bool | None:
    """Whether what is over was done in time; None where it was not to be done by any."""
    if row["deadline_s"] is None:
        return None
    return bool(row["state"] == "done" and row["since_s"] <= row["deadline_s"])

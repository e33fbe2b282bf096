"""Counts that a controller keeps from one decision to the next, by time and not by decision."""

from math import inf
from typing import Any, Final

from merkatd.protocol.platform_messages import Assignment, News

NEARLY: Final = 0.25
"""A tolerance in intervals: real intervals differ."""
_RESTED_S: Final = "rested_s"
_SUSPENDING: Final = "suspending"


def intervals_in_a_row(
    given: Assignment, memory: dict[str, Any], name: str, news: News, *, holds: bool
) -> float:
    """Return for how many intervals in a row a condition holds, including the present one.

    News that follow within an interval count as a part of it. After a restart a controller gets the
    last period's news again, and counts them once.
    """
    count, last_s = memory.get(name, (0, 0.0))
    if not holds:
        count = 0
    elif not count:
        count = 1
    else:
        count += min(abs(news.at_s - last_s) / given.interval_s, 1)
    memory[name] = count, news.at_s
    return float(count)


def note_rest(
    given: Assignment, memory: dict[str, Any], name: str, news: News, *, new: bool
) -> None:
    """Record the time since the platform was resumed; `new`: these are the first news of a process.

    The controller's process ends while the platform is suspended, and may start only when it runs
    again. So a process that has missed periods assumes that the platform was resumed. At most
    about an interval between two news counts, so that a jump of the clock does not end the rest.
    """
    last_s, state = memory.get(name, (None, ""))
    away_s, most_s = 2 * given.interval_s, 1.1 * given.interval_s
    passed_s = away_s if last_s is None else news.at_s - last_s
    missed = new and bool(given.memory) and not 0.0 <= passed_s < away_s
    ended = state == _SUSPENDING and news.state != _SUSPENDING
    if news.state == "resuming" or missed or ended:
        memory[_RESTED_S] = 0.0
    elif _RESTED_S in memory:
        memory[_RESTED_S] += min(max(passed_s, 0.0), most_s)
    memory[name] = news.at_s, news.state


def rested_s(given: Assignment, memory: dict[str, Any]) -> float:
    """Return the time since the platform was resumed; infinite if it never was."""
    return float(memory.get(_RESTED_S, inf)) + NEARLY * given.interval_s

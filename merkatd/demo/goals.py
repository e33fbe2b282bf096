"""The tenants' deadlines, as the web page shows them. Pure."""

from collections.abc import Callable, Iterator, Sequence

from merkatd.demo.bidding import Character
from merkatd.demo.picture import cores_of, standing
from merkatd.demo.state import Standing
from merkatd.demo.tenant import Application, Player
from merkatd.scheduler.phases.announce import Announcement
from merkatd.web.base.goals import Goal

_MANNERS = {
    Character.PATIENT: "patient: bids little",
    Character.THRIFTY: "thrifty: bids what it must",
    Character.URGENT: "urgent: bids more once behind",
    Character.RICH: "rich: bids much from the first",
    Character.LATE: "hasty: bids near the deadline",
}
"""What makes a tenant's work different from others'."""


def goals(
    players: Sequence[Player],
    latest: Announcement | None,
    began_s: float,
    now_min: float,
    minute_s: float,
) -> list[Goal]:
    """What each tenant did last, and what it has to do now.

    The script's minutes become seconds of the cloud.
    """

    def at_s(minute: float) -> float:
        return began_s + minute * minute_s

    found = []
    for player in players:
        now, cores = player.now, cores_of(latest, player.user)
        name = _MANNERS[player.tenant.character]
        if player.past:
            found.append(_over(name, player.user, player.past[-1], at_s))
        if now is None:
            continue
        ending_min = min(_endings(now, now_min, cores), default=None)
        stands = standing(now, now_min, cores)
        if stands is Standing.ON_TRACK and ending_min is not None:
            ending_min = min(ending_min, now.deadline_min)  # late by less than counts
        found.append(
            Goal(
                name=name,
                owner=player.user,
                state=str(stands),
                vms=len(now.alive),
                began_s=at_s(now.errand.arrival_min),
                deadline_s=at_s(now.deadline_min),
                projected_end_s=None if ending_min is None else at_s(ending_min),
                done=now.done,
                on_track=stands is Standing.ON_TRACK,
            )
        )
    return found


def _over(name: str, owner: int, last: Application, at_s: Callable[[float], float]) -> Goal:
    """What a tenant did last, and whether that was in time."""
    ended_s = None if last.ended_min is None else at_s(last.ended_min)
    return Goal(
        name=name,
        owner=owner,
        state="done" if last.finished else "given up",
        vms=last.errand.vms,
        began_s=at_s(last.errand.arrival_min),
        deadline_s=at_s(last.deadline_min),
        projected_end_s=ended_s,
        done=last.done,
        on_track=last.kept,
        ended_s=ended_s,
    )


def _endings(now: Application, now_min: float, cores: float) -> Iterator[float]:
    """When it would be done if it went on with what it gets now, and with what it got on average.

    The better of the two counts: who is ahead of its time may be slow for a while.
    """
    missing = now.errand.work * now.errand.vms * (1.0 - now.done)
    if cores > 0:
        yield now_min + missing / cores
    passed_min = now_min - now.errand.arrival_min
    if now.done > 0 and passed_min > 0:
        yield now.errand.arrival_min + passed_min / now.done

"""The tenants' deadlines, as the web page shows them. Pure."""

from collections.abc import Iterator, Sequence

from merkatd.demo.picture import cores_of, standing
from merkatd.demo.state import Standing
from merkatd.demo.tenant import Application, Player
from merkatd.scheduler.tell import Announcement
from merkatd.web.goals import Goal


def goals(
    players: Sequence[Player],
    latest: Announcement | None,
    began_s: float,
    now_min: float,
    minute_s: float,
) -> list[Goal]:
    """One for each tenant that has work to do; the script's minutes become seconds of the cloud."""

    def at_s(minute: float) -> float:
        return began_s + minute * minute_s

    found = []
    for player in players:
        now, cores = player.now, cores_of(latest, player.user)
        if now is None:
            continue
        ending_min = min(_endings(now, now_min, cores), default=None)
        stands = standing(now, now_min, cores)
        found.append(
            Goal(
                name=f"{player.tenant.name}, {player.tenant.character}",
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

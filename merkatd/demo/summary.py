"""The end of a demo in words: who got what for how much. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from merkatd.demo.tenant import Application, Player


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A tenant's whole story."""

    name: str
    character: str
    done: float
    """Core-minutes of work."""
    kept: int
    missed: int
    under_way: str
    """How the application stands that is not over, if there is one."""
    spent: float

    @property
    def price(self) -> float:
        """Credits for an hour of one core, memory included."""
        return self.spent / self.done * 60.0 if self.done > 0 else 0.0


def account(player: Player, now_min: float, spent: float) -> Account:
    """The story of one tenant."""
    kept = sum(one.kept for one in player.past)
    return Account(
        name=player.tenant.name,
        character=str(player.tenant.character),
        done=sum(sum(one.vms.values()) for one in player.applications),
        kept=kept,
        missed=len(player.past) - kept,
        under_way=_under_way(player.now, now_min),
        spent=spent,
    )


def _under_way(now: Application | None, now_min: float) -> str:
    if now is None:
        return ""
    left = now.deadline_min - now_min
    when = f"{left:.0f} min left" if left >= 0 else f"{-left:.0f} min late"
    return f"{now.done:.0%}, {when}"


def summary(accounts: Sequence[Account], minutes: float, periods: int) -> list[str]:
    """Lines for everybody to read, at most 80 columns wide."""
    head = f"{'tenant':14} {'core-hours':>10} {'kept':>4} {'missed':>6} {'credits':>8}"
    lines = [
        f"{minutes:.0f} minutes of the cloud's time, {periods} periods. Who got what for how much:",
        "",
        f"{'':14} {'':>10}   deadlines",
        f"{head} {'a core-hour':>11}  under way",
    ]
    lines += [
        f"{one.name:5} {one.character:8} {one.done / 60:10.1f} {one.kept:4} {one.missed:6}"
        f" {one.spent:8.0f} {one.price:11.1f}  {one.under_way}".rstrip()
        for one in accounts
    ]
    spent, done = sum(one.spent for one in accounts), sum(one.done for one in accounts) / 60
    price = spent / done if done > 0 else 0.0
    kept, missed = sum(one.kept for one in accounts), sum(one.missed for one in accounts)
    lines.append(f"{'all':14} {done:10.1f} {kept:4} {missed:6} {spent:8.0f} {price:11.1f}")
    return lines

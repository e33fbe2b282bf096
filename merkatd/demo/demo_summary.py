"""The summary of a demo: the results of each tenant."""

from collections.abc import Sequence
from dataclasses import dataclass

from merkatd.demo.demo_tenant import RunningErrand, ScriptPlayer


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantSummary:
    """The results of a tenant."""

    name: str
    character: str
    done: float
    """The work done, in core-minutes."""
    kept: int
    missed: int
    under_way: str
    """The state of the running application, empty without one."""
    spent: float

    @property
    def price(self) -> float:
        """Return the credits per core-hour, memory included."""
        return self.spent / self.done * 60.0 if self.done > 0 else 0.0


def account(player: ScriptPlayer, now_min: float, spent: float) -> TenantSummary:
    """Return the results of a tenant."""
    kept = sum(application.kept for application in player.past)
    return TenantSummary(
        name=player.tenant.name,
        character=str(player.tenant.character),
        done=sum(sum(application.vms.values()) for application in player.applications),
        kept=kept,
        missed=len(player.past) - kept,
        under_way=_under_way(player.now, now_min),
        spent=spent,
    )


def _under_way(now: RunningErrand | None, now_min: float) -> str:
    if now is None:
        return ""
    left = now.deadline_min - now_min
    when = f"{left:.0f} min left" if left >= 0 else f"{-left:.0f} min late"
    return f"{now.done:.0%}, {when}"


def summary(accounts: Sequence[TenantSummary], minutes: float, periods: int) -> list[str]:
    """Return the summary of a demo, in lines of at most 80 columns."""
    head = f"{'tenant':14} {'core-hours':>10} {'kept':>4} {'missed':>6} {'credits':>8}"
    lines = [
        f"{minutes:.0f} minutes of the cloud's time, {periods} periods. Results of each tenant:",
        "",
        f"{'':14} {'':>10}   deadlines",
        f"{head} {'a core-hour':>11}  under way",
    ]
    lines += [
        f"{account.name:5} {account.character:8} {account.done / 60:10.1f} {account.kept:4}"
        f" {account.missed:6} {account.spent:8.0f} {account.price:11.1f}"
        f"  {account.under_way}".rstrip()
        for account in accounts
    ]
    spent = sum(account.spent for account in accounts)
    done = sum(account.done for account in accounts) / 60
    price = spent / done if done > 0 else 0.0
    kept = sum(account.kept for account in accounts)
    missed = sum(account.missed for account in accounts)
    lines.append(f"{'all':14} {done:10.1f} {kept:4} {missed:6} {spent:8.0f} {price:11.1f}")
    return lines

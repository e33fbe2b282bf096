"""The display state of a busy demo."""

from merkatd.demo.demo_script import CAST
from merkatd.demo.screen.display_state import (
    DisplayedDecision,
    DisplayedHost,
    DisplayedTenant,
    DisplayState,
    GoalStatus,
    VmBar,
)


def busy(hosts: int = 4, decisions: int = 60) -> DisplayState:
    """Return full hosts, tenants of every standing, rising prices and long reasons."""
    return DisplayState(
        period=37,
        left_s=22.6,
        command=".venv/bin/merkatd status --config /tmp/merkat-demo-abcdefgh/merkatd.toml",
        running=hosts * 4,
        pending=2,
        cpu_prices=tuple(at * 0.11 for at in range(60)),
        memory_prices=(0.0, 0.5, 0.25),
        hosts=tuple(
            DisplayedHost(
                name=f"host{at:03d}",
                cpu=800.0,
                memory=16384.0,
                vms=tuple(
                    VmBar(
                        vm=at * 4 + turn,
                        name=f"vm-{at * 4 + turn}",
                        tenant=turn - 1,
                        cpu=50.0 + 90 * turn,
                        memory=4096.0,
                    )
                    for turn in range(4)
                ),
            )
            for at in range(hosts)
        ),
        tenants=tuple(
            DisplayedTenant(
                name=tenant.name,
                character=str(tenant.character),
                standing=list(GoalStatus)[at % 4],
                vms=4,
                bid=1234.5 if at == 1 else 2.7,
                cores=15.5,
                done=at / 5,
                passed=0.5,
                left_min=12.3 - 5 * at,
                kept=at,
                missed=1,
                balance=123456.0,
            )
            for at, tenant in enumerate(CAST)
        ),
        decisions=tuple(
            DisplayedDecision(
                period=at, tenant=at % 7 - 1, what=f"migrate VM {at}", why="for a reason " * 9
            )
            for at in range(decisions)
        ),
    )

"""Details of periods become days: all that a VM used and paid, for each good."""

import numpy as np

from merkatd.database.ledger.usage_store import DailyUse, Detail
from merkatd.ledger.statements import uses_of

DAY_S = 86_400.0


def detail(period: int, at_s: float, allocation: list[float], charged: list[int]) -> Detail:
    """Return the detail of one VM that was charged for sixty seconds."""
    return Detail(
        period=period,
        at_s=at_s,
        vm=np.array([7]),
        account=np.array([3]),
        seconds=np.array([60.0]),
        allocation=np.array([allocation]),
        charged=np.array([charged]),
        names=[f"name {period}"],
    )


def test_each_good_is_added_up_by_day() -> None:
    """Network and disk may be sold in some periods only; the day has the VM's last name."""
    uses = uses_of(
        [
            detail(1, 1.0 * DAY_S, [100.0, 512.0], [10, 20]),
            detail(2, 1.5 * DAY_S, [50.0, 256.0, 8.0, 4.0], [1, 2, 3, 4]),
            detail(3, 2.5 * DAY_S, [200.0, 64.0], [5, 6]),
        ]
    )
    assert uses == [
        DailyUse(3, 1, 7, "name 2", 120.0, 9_000.0, 46_080.0, 11, 22, 480.0, 240.0, 3, 4),
        DailyUse(3, 2, 7, "name 3", 60.0, 12_000.0, 3_840.0, 5, 6, 0.0, 0.0, 0, 0),
    ]

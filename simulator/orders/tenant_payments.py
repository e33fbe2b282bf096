"""What platforms pay in virtual time, and the credits that tenants keep for later platforms.

A platform begins with the budget of its application. Credits that it has left at its end go back to
its tenant's account, and the tenant's next platform gets all of them besides its own budget. So a
tenant with several applications can use later what it saves now.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from merkatd.cluster import Ints
from merkatd.currency.income import Refill, replenishments
from simulator.orders.patient_platform import PatientPlatform


class TenantPayments:
    """The accounts of platforms and tenants, in micro-credits."""

    def __init__(
        self, platforms: Sequence[PatientPlatform], tenants: Mapping[int, int], renewal_s: float
    ) -> None:
        """`tenants` has, by row of the platform, a tenant with several platforms."""
        self._platforms, self._tenants, self._renewal_s = platforms, tenants, renewal_s
        self._accounts = dict.fromkeys(tenants.values(), 0)
        self._ended: list[PatientPlatform] = []
        self._replenished_s: float | None = None

    def open(self, platform: PatientPlatform) -> None:
        """Give a submitted platform the credits that its tenant has left."""
        if (tenant := self._tenants.get(platform.id)) is not None:
            platform.tenancy.balance += self._accounts[tenant]
            self._accounts[tenant] = 0

    def close(self, platform: PatientPlatform) -> None:
        """Give its tenant what a platform has left, after its last charge."""
        if platform.id in self._tenants:
            self._ended.append(platform)

    def pay(self, owed: Ints) -> None:
        """Charge the platforms; `owed` is [platforms]: micro-credits."""
        for row in np.flatnonzero(owed).tolist():
            tenancy = self._platforms[row].tenancy
            paid = min(int(owed[row]), tenancy.balance)
            tenancy.balance -= paid
            tenancy.spent += paid
        for platform in self._ended:
            self._accounts[self._tenants[platform.id]] += platform.tenancy.balance
            platform.tenancy.balance = 0
        self._ended.clear()

    def replenish(self, living: Sequence[PatientPlatform], now_s: float) -> None:
        """Replenish the budgets of these platforms, once in each renewal period."""
        before_s = self._replenished_s
        if before_s is not None and now_s - before_s < self._renewal_s:
            return
        self._replenished_s = now_s
        for platform in living:
            tenancy = platform.tenancy
            refill = Refill(0, tenancy.initial, tenancy.initial, tenancy.balance)
            tenancy.balance += replenishments(tenancy.initial, [refill])[0]

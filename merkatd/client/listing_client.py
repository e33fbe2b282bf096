"""A tenant's lists: `Listings(merkat).vms()`."""

from collections.abc import Mapping, Sequence
from typing import Any

from merkatd.client.errors import UnreachableError
from merkatd.client.merkat import Merkat, without_none

ListedRow = Mapping[str, Any]
"""A row of a list: the page of the interface describes its members. Some are only there if a
resource is sold; a member without a value is left out."""


class Listings:
    """The lists of one login: its own things; for an administrator, all."""

    def __init__(self, merkat: Merkat) -> None:
        self._merkat = merkat

    def hosts(self) -> Sequence[ListedRow]:
        """Return the hosts on which the login has VMs."""
        return self._rows("merkat.host.list")

    def vms(self) -> Sequence[ListedRow]:
        """Return the VMs with their bids, shares and costs."""
        return self._rows("merkat.vm.list")

    def applications(self) -> Sequence[ListedRow]:
        """Return the applications, and the VMs outside of applications together."""
        return self._rows("merkat.application.list")

    def steps(
        self,
        *,
        vm: int | None = None,
        host: int | None = None,
        kind: str | None = None,
        state: str | None = None,
        first_period: int | None = None,
        last_period: int | None = None,
        since_s: float | None = None,
        limit: int | None = None,
    ) -> Sequence[ListedRow]:
        """Return the newest decisions about the login's VMs, the newest first."""
        filters = without_none(
            vm=vm,
            host=host,
            kind=kind,
            state=state,
            first_period=first_period,
            last_period=last_period,
            since_s=None if since_s is None else float(since_s),
            limit=limit,
        )
        return self._rows("merkat.step.list", filters)

    def _rows(self, method: str, *arguments: Any) -> Sequence[ListedRow]:
        answer = self._merkat.call(method, *arguments)
        if not isinstance(answer, list) or not all(isinstance(row, dict) for row in answer):
            raise UnreachableError(f"expected an answer of merkatd (got {str(answer)[:80]})")
        return answer

"""The service of groups: views, and orders to their keeper; a group's permissions decide."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa

from merkatd.base.quantities import quoted_value
from merkatd.database.fleets import group_store
from merkatd.database.fleets.group_store import GroupRow
from merkatd.fleets.vm_template_source import vm_template
from merkatd.fleets.vm_template_text import TemplateError, template_problem
from merkatd.groups import group_orders, group_views
from merkatd.groups.group_keeper import Keeper
from merkatd.groups.group_orders import Edit, GroupRight, permits, require_group
from merkatd.groups.group_views import GroupDetails, GroupSummary, LatestVms
from merkatd.ledger import NotFoundError
from merkatd.scheduler.base.troubles import TroubleKind
from merkatd.scheduler.period import Scheduler
from merkatd.scheduler.traits.template_values import MAX_AMOUNT
from merkatd.service.base.arguments import LONGEST_NAME
from merkatd.service.base.callers import Caller, CallerRights
from merkatd.service.base.errors import (
    InvalidRequestError,
    NotPermittedError,
    TryAgainError,
    UnknownObjectError,
)
from merkatd.service.base.ledger_errors import ledger_errors_translated

__all__ = ["Edit", "GroupDetails", "GroupRequest", "GroupService", "GroupSummary"]
MOST_RATE = MAX_AMOUNT
MOST_VMS = group_orders.MOST_VMS
LONGEST_TEMPLATE = 32_768
_ADMIN_BITS = 0o111
"""The permission bits of the right to administer a group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRequest:
    """A user's request for a group; exactly one of the three templates must be given."""

    spending_rate: float
    nvm: int
    name: str | None = None
    market: str | None = None
    template: str | None = None
    template_id: int | None = None
    template_name: str | None = None


class GroupService:
    """The groups of users."""

    def __init__(self, scheduler: Scheduler, keeper: Keeper, callers: CallerRights) -> None:
        self._scheduler = scheduler
        self._keeper = keeper
        self._callers = callers

    async def require_managed(self, caller: Caller, group: int) -> None:
        """Raise NotPermittedError or UnknownObjectError if the caller may not manage the group."""
        await self._permitted(caller, group, GroupRight.MANAGE)

    async def require_used(self, caller: Caller, group: int) -> None:
        """Raise NotPermittedError or UnknownObjectError if the caller may not use the group."""
        await self._permitted(caller, group, GroupRight.USE)

    async def groups(self, caller: Caller, owner: int | None = None) -> Sequence[GroupSummary]:
        """Return the living groups that the caller may use, or only those of an owner."""
        identity, sights = caller.identity, self._sights()

        def read(connection: sa.Connection) -> list[GroupSummary]:
            some = (
                group_store.living(connection, owner)
                if caller.is_admin
                else group_store.permitting(
                    connection, caller.uid, identity.groups, GroupRight.USE, owner
                )
            )
            return group_views.rows(connection, some, sights)

        return await self._scheduler.world.database.read(read)

    async def group(self, caller: Caller, group: int) -> GroupDetails:
        """Return a group and its VMs."""
        return await self._shown(await self._permitted(caller, group, GroupRight.USE))

    async def create(self, caller: Caller, request: GroupRequest) -> GroupDetails:
        """Create a group of the caller, and return it."""
        market = self._market(request.market)
        if request.name is not None:
            _check_name(request.name)
        template = await self._template(caller, request)
        with ledger_errors_translated():
            new = await self._keeper.create(
                owner=caller.uid,
                user_group=caller.identity.group,
                name=request.name,
                market=market,
                template=template,
                spending_rate=request.spending_rate,
                nvm=request.nvm,
            )
        self._scheduler.wake_for(caller.uid)
        return await self._shown(new)

    async def edit(self, caller: Caller, group: int, change: Edit) -> GroupDetails:
        """Change the spending rate or the number of VMs of a group, and return it."""
        await self.require_managed(caller, group)
        with ledger_errors_translated():
            changed = await self._keeper.edit(group, change)
        self._scheduler.wake_for(caller.uid)
        return await self._shown(changed)

    async def delete(self, caller: Caller, group: int) -> GroupDetails:
        """End a group and its VMs, and return it."""
        await self.require_managed(caller, group)
        with ledger_errors_translated():
            ending = await self._keeper.delete(group)
        self._scheduler.wake_for(caller.uid)
        return await self._shown(ending)

    async def rename(self, caller: Caller, group: int, name: str) -> GroupDetails:
        """Rename a group, and return it."""
        await self.require_managed(caller, group)
        _check_name(name)
        return await self._changed(group, name=name)

    async def set_permissions(self, caller: Caller, group: int, permissions: str) -> GroupDetails:
        """Set a group's permissions, three octal digits, and return it.

        Only an administrator can add the right to administer it.
        """
        group_row = await self._permitted(caller, group, GroupRight.MANAGE)
        bits = _bits_of(permissions)
        if not caller.is_admin and bits & _ADMIN_BITS & ~group_row.permissions:
            raise _denied(caller, GroupRight.ADMIN, group)
        return await self._changed(group, permissions=bits)

    async def set_owner(
        self, caller: Caller, group: int, owner: int | None, user_group: int | None
    ) -> GroupDetails:
        """Change a group's owner or group of users, and return it; None leaves a value unchanged.

        Only an administrator can change the owner, or choose a group that is not its own.
        """
        row = await self._permitted(caller, group, GroupRight.MANAGE)
        foreign = user_group is not None and user_group not in caller.identity.groups
        if not caller.is_admin and (owner is not None or foreign):
            raise _denied(caller, GroupRight.ADMIN, group)
        values = {"owner": owner, "user_group": user_group}
        given = {name: value for name, value in values.items() if value is not None}
        if any(value < 0 for value in given.values()):
            raise InvalidRequestError(
                "user, user_group: must be ids from 0 up, or -1 for unchanged"
            )
        if not given:
            return await self._shown(row)
        changed = await self._changed(group, **given)
        self._scheduler.wake_for(caller.uid)
        return changed

    async def _permitted(self, caller: Caller, group: int, right: GroupRight) -> GroupRow:
        """Return the stored group if the caller has this right to it."""
        try:
            row = await self._scheduler.world.database.read(
                lambda c: require_group(c, group, lock=False)
            )
        except NotFoundError:
            raise UnknownObjectError(f"Error getting group [{group}].", group) from None
        if not caller.is_admin and not permits(row, caller.uid, caller.identity.groups, right):
            raise _denied(caller, right, group)
        return row

    async def _shown(self, row: GroupRow) -> GroupDetails:
        """Return the view of a row as it was read or stored: the group may have ended since."""
        sights, troubles = self._sights(), self._scheduler.world.troubles
        details = await self._scheduler.world.database.read(
            lambda c: group_views.group_view(c, row, sights)
        )
        why = troubles.why(TroubleKind.GROUP, row.id)
        if why is None:
            return details
        return replace(details, why=f"the daemon fails to manage it: {why}")

    def _sights(self) -> LatestVms:
        return LatestVms(self._scheduler.latest, self._scheduler.world.markets)

    async def _changed(self, group: int, **values: int | str) -> GroupDetails:
        with ledger_errors_translated():
            changed = await self._keeper.change(group, **values)
        return await self._shown(changed)

    def _market(self, wanted: str | None) -> str:
        """Return the market for a group's spending rate."""
        known = [market.name for market in self._scheduler.world.markets if market.by_use]
        if not known:
            raise TryAgainError(
                "this daemon has no market for groups: an administrator can add one with"
                ' strategy = "groups"'
            )
        if (wanted is None and len(known) > 1) or (wanted is not None and wanted not in known):
            raise InvalidRequestError(
                f"market: must be one of {', '.join(known)} (got {quoted_value(wanted)})"
            )
        return wanted or known[0]

    async def _template(self, caller: Caller, request: GroupRequest) -> str:
        """Return the lines of the VM template, after a check that the caller may use it."""
        templates = (request.template, request.template_id, request.template_name)
        if sum(value is not None for value in templates) != 1:
            raise InvalidRequestError(
                "template, template_id, template_name: exactly one must be given"
            )
        if request.template is not None and not 1 <= len(request.template) <= LONGEST_TEMPLATE:
            raise wrong_template(request.template)
        try:
            lines = await vm_template(
                "", request, self._callers.ask_of(caller), admin=caller.is_admin
            )
        except TemplateError as error:
            raise InvalidRequestError(f"template: {'; '.join(error.problems)}") from None
        problem = template_problem(lines)
        if problem is not None:
            raise InvalidRequestError(f"template: {problem}")
        return lines


def wrong_template(template: object) -> InvalidRequestError:
    """Return the error for a template that is not a text of the accepted length."""
    return InvalidRequestError(
        f"template: must be a text of 1 to {LONGEST_TEMPLATE} characters"
        f" (got {quoted_value(template)})"
    )


def _check_name(name: str) -> None:
    """Raise InvalidRequestError if the name does not fit into a line of a template."""
    if not name.isprintable() or '"' in name or name.isdigit():
        raise InvalidRequestError(
            f"name: must be 1 to {LONGEST_NAME} characters on a line, without quotes, and not"
            f" only digits (got {quoted_value(name)})"
        )


def _bits_of(permissions: str) -> int:
    """Return the nine permission bits of three octal digits."""
    if len(permissions) != 3 or not set(permissions) <= set("01234567"):
        raise InvalidRequestError(
            f"permissions: must be three digits from 000 to {group_orders.MAX_PERMISSIONS:o}"
            f" (got {quoted_value(permissions)})"
        )
    return int(permissions, 8)


def _denied(caller: Caller, right: GroupRight, group: int) -> NotPermittedError:
    return NotPermittedError(
        f"User [{caller.uid}] : Not authorized to perform {right.name} GROUP [{group}].", group
    )

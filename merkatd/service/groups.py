"""Questions about groups and orders to them; the interfaces check the permissions."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from merkatd.base.quantities import shown
from merkatd.database.fleets import group_store
from merkatd.database.fleets.group_store import GroupRow
from merkatd.fleets.vm_template_source import vm_template
from merkatd.fleets.vm_template_text import Ask, TemplateError, template_problem
from merkatd.groups import group_views
from merkatd.groups.group_keeper import Keeper
from merkatd.groups.group_orders import MAX_PERMISSIONS, MOST_VMS, Edit, GroupRight, require_group
from merkatd.scheduler.base.troubles import TroubleKind
from merkatd.scheduler.observation.bidders import MAX_AMOUNT as MOST_RATE
from merkatd.scheduler.period import Scheduler
from merkatd.service.base.arguments import LONGEST_NAME, Arguments, number, text, whole
from merkatd.service.base.errors import InvalidRequestError, TryAgainError

Row = dict[str, Any]
LONGEST_TEMPLATE = 32_768
CREATE_WORDS = ("template", "template_id", "template_name", "rate", "count", "name", "market")
EDIT_WORDS = ("rate", "count", "vms")


@dataclass(frozen=True, slots=True)
class _Source:
    """The `TemplateSource` (merkatd.fleets.vm_template_source) of a group's VM template."""

    template: str | None
    template_id: int | None
    template_name: str | None


class GroupQuestions:
    """The questions about groups, and the orders to their keeper."""

    def __init__(self, scheduler: Scheduler, keeper: Keeper) -> None:
        self._scheduler = scheduler
        self.keeper = keeper

    async def group(self, group: int) -> GroupRow:
        """Return the stored group, for permission checks. Raise NotFoundError."""
        return await self._scheduler.world.database.read(lambda c: require_group(c, group))

    async def listed(
        self, user: int | None, user_groups: Collection[int], owner: int | None = None
    ) -> list[Row]:
        """Return the living groups that a user may use (None: all), or only those of an owner."""
        latest = self._scheduler.latest

        def read(connection: sa.Connection) -> list[Row]:
            some = (
                group_store.living(connection, owner)
                if user is None
                else group_store.permitting(connection, user, user_groups, GroupRight.USE, owner)
            )
            return group_views.rows(connection, some, latest)

        return await self._scheduler.world.database.read(read)

    async def shown(self, group: int) -> Row:
        """Return all details of the group. Raise NotFoundError."""
        latest, troubles = self._scheduler.latest, self._scheduler.world.troubles
        row = await self._scheduler.world.database.read(
            lambda c: group_views.group_view(c, require_group(c, group), latest)
        )
        why = troubles.why(TroubleKind.GROUP, group)
        return row if why is None else row | {"why": f"the daemon fails to manage it: {why}"}

    async def create(
        self, given: Arguments, owner: int, user_group: int, ask: Ask, *, admin: bool
    ) -> Row:
        """Create a group and return it. Raise InvalidRequestError.

        `ask` calls OpenNebula with the owner's login.
        """
        _only(given, CREATE_WORDS)
        rate, count = _rate(given), _count(given, least=1)
        if rate is None or count is None:
            raise InvalidRequestError(
                "rate and count: both the spending rate and the number of VMs needed"
            )
        market = self._market(text(given, "market"))
        new = await self.keeper.create(
            owner=owner,
            user_group=user_group,
            name=name_of(given),
            market=market,
            template=await _template(given, ask, admin=admin),
            spending_rate=rate,
            nvm=count,
        )
        return await self.shown(new.id)

    async def edit(self, group: int, given: Arguments) -> Row:
        """Change the spending rate or the number of VMs. Raise RequestError."""
        _only(given, EDIT_WORDS)
        new = Edit(
            spending_rate=_rate(given), nvm=_count(given, least=0), ending=_vms(given.get("vms"))
        )
        await self.keeper.edit(group, new)
        return await self.shown(group)

    async def delete(self, group: int) -> Row:
        """End the group and its VMs. Raise LedgerError."""
        await self.keeper.delete(group)
        return await self.shown(group)

    async def change(self, group: int, **values: int | str) -> Row:
        """Change the name, owner, user group or permissions. Raise LedgerError."""
        await self.keeper.change(group, **values)
        return await self.shown(group)

    def _market(self, wanted: str | None) -> str:
        """Return the market for the group's spending rate. Raise InvalidRequestError."""
        known = [one.name for one in self._scheduler.world.markets if one.by_use]
        if not known:
            raise TryAgainError(
                "this daemon has no market for groups: an administrator can add one with"
                ' strategy = "groups"'
            )
        if (wanted is None and len(known) > 1) or (wanted is not None and wanted not in known):
            raise InvalidRequestError(
                f"market: must be one of {', '.join(known)} (got {shown(wanted)})"
            )
        return wanted or known[0]


def name_of(given: Arguments) -> str | None:
    """Return the name, which must fit into a line of a template. Raise InvalidRequestError."""
    name = text(given, "name")
    if name is not None and (not name.isprintable() or '"' in name or name.isdigit()):
        raise InvalidRequestError(
            f"name: must be 1 to {LONGEST_NAME} characters on a line, without quotes, and not"
            f" only digits (got {shown(name)})"
        )
    return name


def permissions_of(value: str) -> int:
    """Return the nine permission bits of three octal digits. Raise InvalidRequestError."""
    if len(value) != 3 or not set(value) <= set("01234567"):
        raise InvalidRequestError(
            f"permissions: must be three digits from 000 to {MAX_PERMISSIONS:o}"
            f" (got {shown(value)})"
        )
    return int(value, 8)


def _only(given: Arguments, known: tuple[str, ...]) -> None:
    for name in given:
        if name not in known:
            raise InvalidRequestError(f"unknown field {shown(name)}; known: {', '.join(known)}")


def _rate(given: Arguments) -> float | None:
    rate = number(given, "rate", MOST_RATE)
    if rate == 0:
        raise InvalidRequestError("rate: must be more than 0 (got 0)")
    return rate


def _count(given: Arguments, least: int) -> int | None:
    count = whole(given, "count")
    if count is not None and not least <= count <= MOST_VMS:
        raise InvalidRequestError(f"count: must be from {least} to {MOST_VMS} VMs (got {count})")
    return count


def _vms(given: Any) -> tuple[int, ...]:
    if given is None:
        return ()
    if not isinstance(given, list) or not all(type(one) is int for one in given):
        raise InvalidRequestError("vms: must be an array of VM ids")
    return tuple(given)


async def _template(given: Arguments, ask: Ask, *, admin: bool) -> str:
    """Return the lines of the VM template, after a check that the owner may use it."""
    said: Mapping[str, Any] = {name: given.get(name) for name in CREATE_WORDS[:3]}
    if sum(one is not None for one in said.values()) != 1:
        raise InvalidRequestError("template, template_id, template_name: exactly one must be given")
    written = said["template"]
    if written is not None and (
        not isinstance(written, str) or not 1 <= len(written) <= LONGEST_TEMPLATE
    ):
        raise InvalidRequestError(
            f"template: must be a text of 1 to {LONGEST_TEMPLATE} characters (got {shown(written)})"
        )
    source = _Source(written, whole(given, "template_id"), text(given, "template_name"))
    try:
        lines = await vm_template("", source, ask, admin=admin)
    except TemplateError as error:
        raise InvalidRequestError(f"template: {'; '.join(error.problems)}") from None
    problem = template_problem(lines)
    if problem is not None:
        raise InvalidRequestError(f"template: {problem}")
    return lines

"""Questions about groups and orders to them, for doors that know who may ask."""

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
from merkatd.service.base.errors import QuestionError, TryAgainError

Row = dict[str, Any]
LONGEST_TEMPLATE = 32_768
CREATE_WORDS = ("template", "template_id", "template_name", "rate", "count", "name", "market")
EDIT_WORDS = ("rate", "count", "vms")


@dataclass(frozen=True, slots=True)
class _Source:
    """A `TemplateSource` (merkatd.fleets.vm_template_source) for the template of the VMs."""

    template: str | None
    template_id: int | None
    template_name: str | None


class GroupQuestions:
    """The questions that the keeper of groups answers."""

    def __init__(self, scheduler: Scheduler, keeper: Keeper) -> None:
        self._scheduler = scheduler
        self.keeper = keeper

    async def group(self, group: int) -> GroupRow:
        """The group, for who must know whose it is. Raises NotFoundError."""
        return await self._scheduler.world.database.read(lambda c: require_group(c, group))

    async def listed(
        self, user: int | None, user_groups: Collection[int], owner: int | None = None
    ) -> list[Row]:
        """Every group that is not over and that a user may use; of no user, all. Of one owner."""
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
        """All that is known of it. Raises NotFoundError."""
        latest, troubles = self._scheduler.latest, self._scheduler.world.troubles
        row = await self._scheduler.world.database.read(
            lambda c: group_views.group_view(c, require_group(c, group), latest)
        )
        why = troubles.why(TroubleKind.GROUP, group)
        return row if why is None else row | {"why": f"the daemon fails to look after it: {why}"}

    async def create(
        self, given: Arguments, owner: int, user_group: int, ask: Ask, *, admin: bool
    ) -> Row:
        """A new group; `ask` calls OpenNebula in its owner's name. Raises QuestionError."""
        _only(given, CREATE_WORDS)
        rate, count = _rate(given), _count(given, least=1)
        if rate is None or count is None:
            raise QuestionError("rate and count: what is to be spent, and the number of VMs")
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
        """Another spending rate or number of VMs. Raises QuestionError, LedgerError."""
        _only(given, EDIT_WORDS)
        new = Edit(
            spending_rate=_rate(given), nvm=_count(given, least=0), ending=_vms(given.get("vms"))
        )
        await self.keeper.edit(group, new)
        return await self.shown(group)

    async def delete(self, group: int) -> Row:
        """End it and its VMs. Raises LedgerError."""
        await self.keeper.delete(group)
        return await self.shown(group)

    async def change(self, group: int, **values: int | str) -> Row:
        """Another name, owner, group or permissions. Raises LedgerError."""
        await self.keeper.change(group, **values)
        return await self.shown(group)

    def _market(self, wanted: str | None) -> str:
        """The market in which rates are spent. Raises QuestionError."""
        known = [one.name for one in self._scheduler.world.markets if one.by_use]
        if not known:
            raise TryAgainError(
                "no market of this daemon is for groups: an administrator makes one with"
                ' strategy = "groups"'
            )
        if (wanted is None and len(known) > 1) or (wanted is not None and wanted not in known):
            raise QuestionError(f"market: {shown(wanted)}: one of {', '.join(known)} is right")
        return wanted or known[0]


def name_of(given: Arguments) -> str | None:
    """A name that a line of a template can hold. Raises QuestionError."""
    name = text(given, "name")
    if name is not None and (not name.isprintable() or '"' in name or name.isdigit()):
        raise QuestionError(
            f"name: {shown(name)}: 1 to {LONGEST_NAME} characters on a line, no quotes, and not"
            " only digits, are right"
        )
    return name


def permissions_of(value: str) -> int:
    """Nine bits from three octal digits. Raises QuestionError."""
    if len(value) != 3 or not set(value) <= set("01234567"):
        raise QuestionError(
            f"permissions: {shown(value)}: three digits from 000 to {MAX_PERMISSIONS:o}"
        )
    return int(value, 8)


def _only(given: Arguments, known: tuple[str, ...]) -> None:
    for name in given:
        if name not in known:
            raise QuestionError(f"{shown(name)}: only {', '.join(known)} are right")


def _rate(given: Arguments) -> float | None:
    rate = number(given, "rate", MOST_RATE)
    if rate == 0:
        raise QuestionError("rate: 0: more than nothing is right")
    return rate


def _count(given: Arguments, least: int) -> int | None:
    count = whole(given, "count")
    if count is not None and not least <= count <= MOST_VMS:
        raise QuestionError(f"count: {count}: from {least} to {MOST_VMS} VMs are right")
    return count


def _vms(given: Any) -> tuple[int, ...]:
    if given is None:
        return ()
    if not isinstance(given, list) or not all(type(one) is int for one in given):
        raise QuestionError("vms: an array of ids of VMs is right")
    return tuple(given)


async def _template(given: Arguments, ask: Ask, *, admin: bool) -> str:
    """The lines of the VMs' template, once it is clear that their owner may have such VMs."""
    said: Mapping[str, Any] = {name: given.get(name) for name in CREATE_WORDS[:3]}
    if sum(one is not None for one in said.values()) != 1:
        raise QuestionError("template, template_id or template_name: one of them is right")
    written = said["template"]
    if written is not None and (
        not isinstance(written, str) or not 1 <= len(written) <= LONGEST_TEMPLATE
    ):
        raise QuestionError(
            f"template: {shown(written)}: a text of at most {LONGEST_TEMPLATE} characters is right"
        )
    source = _Source(written, whole(given, "template_id"), text(given, "template_name"))
    try:
        lines = await vm_template("", source, ask, admin=admin)
    except TemplateError as error:
        raise QuestionError(f"template: {'; '.join(error.problems)}") from None
    problem = template_problem(lines)
    if problem is not None:
        raise QuestionError(f"template: {problem}")
    return lines

"""A controller's actions, each carried out once and only on the controller's own platform."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from math import isfinite
from typing import Final

import sqlalchemy as sa

from merkatd import ledger
from merkatd.base.quantities import credits_text
from merkatd.currency import MICRO
from merkatd.database.fleets import platform_store
from merkatd.database.fleets.fleet_store import PLATFORM_VMS
from merkatd.database.fleets.platform_store import PlatformAction, PlatformRow
from merkatd.database.scheduler import bid_store, limit_order_store
from merkatd.database.scheduler.bid_store import Bid, BidSource
from merkatd.platforms.lifecycle.controller_failures import recover
from merkatd.platforms.lifecycle.template_reader import parsed
from merkatd.platforms.lifecycle.transitions import record_size, record_transition
from merkatd.platforms.rules.lifecycle_events import (
    ATTENDED,
    UP_OR_COMING,
    Event,
    LifecycleEvent,
    PlatformState,
)
from merkatd.protocol.platform_messages import (
    Action,
    ActionOutcome,
    Amounts,
    GiveUp,
    ProgressReport,
    SetBids,
    SetLimit,
    SetSize,
    SuspendPlatform,
    WorkDone,
)
from merkatd.scheduler.base.settings import RESOURCES
from merkatd.scheduler.traits.template_values import MAX_AMOUNT

CONTROLLER: Final = "controller"
_LONGEST = 2_000
"""The stored length of a reason, in characters."""


class ControllerActionError(ValueError):
    """The action is refused; the message says what is accepted."""


def act(
    connection: sa.Connection,
    platform: int,
    action_id: str,
    action: Action,
    at_s: float,
    goods: Sequence[str] = RESOURCES,
) -> ActionOutcome:
    """Carry out an action, and return its result; a repeated action changes nothing.

    `goods` are the goods for which VMs can bid.
    """
    if not 1 <= len(action_id) <= 64:
        why = f"an action's id must have 1 to 64 characters (got {len(action_id)})"
        return ActionOutcome(accepted=False, why=why)
    row = platform_store.locked(connection, platform)
    if row is None:
        return ActionOutcome(accepted=False, why=f"platform {platform} does not exist")
    before = platform_store.find_action(connection, platform, action_id)
    if before is not None:
        return ActionOutcome(not before.refused, before.text if before.refused else "")
    try:
        _check_attended(row)
        if isinstance(action, SetBids):
            _check_amounts(action.bids, goods)
        _TAKE[type(action)](connection, row, action_id, action, at_s)
        if not isinstance(action, ProgressReport):  # a report only replaces the last one
            recover(connection, row)
    except ControllerActionError as error:
        doing = _doing(row, action_id, _WORD[type(action)], str(error), at_s, refused=True)
        platform_store.add_action(connection, doing)
        return ActionOutcome(accepted=False, why=str(error))
    return ActionOutcome(accepted=True)


def _check_attended(platform: PlatformRow) -> None:
    if PlatformState(platform.state) not in ATTENDED:
        raise ControllerActionError(f"platform {platform.id} is {platform.state}")


def _bids(
    connection: sa.Connection, platform: PlatformRow, action_id: str, action: SetBids, at_s: float
) -> None:
    own = {member.vm for member in PLATFORM_VMS.living(connection, platform.id)}
    words = []
    for vm, amounts in action.bids.items():
        if vm not in own:
            raise ControllerActionError(f"VM {vm} does not belong to platform {platform.id}")
        words.append(Bid(vm=vm, bid=dict(amounts), source=BidSource.CONTROLLER, at_s=at_s))
    bid_store.record_bids(connection, words)
    text = action.reason or f"bids for {len(words)} VMs"
    platform_store.add_action(connection, _doing(platform, action_id, "bids", text, at_s))


def _check_amounts(bids_: Mapping[int, Amounts], goods: Sequence[str]) -> None:
    for vm, amounts in bids_.items():
        for name, amount in amounts.items():
            if name not in goods or not 0 <= amount <= MAX_AMOUNT:
                raise ControllerActionError(
                    f"VM {vm} can't bid {amount!r} for {name!r}: expected a number from 0 to"
                    f" {MAX_AMOUNT:g} for {', '.join(goods)}"
                )


def _size(
    connection: sa.Connection, platform: PlatformRow, action_id: str, action: SetSize, at_s: float
) -> None:
    template = parsed(platform.template)
    cluster = next(
        (cluster for cluster in template.clusters if cluster.name == action.cluster), None
    )
    if cluster is None:
        names = ", ".join(cluster.name for cluster in template.clusters)
        raise ControllerActionError(f"cluster must be one of {names} (got {action.cluster!r})")
    if PlatformState(platform.state) not in UP_OR_COMING:
        raise ControllerActionError(f"platform {platform.id} is {platform.state}")
    members = PLATFORM_VMS.living(connection, platform.id)
    member_of_vm = {member.vm: member for member in members if member.cluster == cluster.name}
    foreign = set(action.victims) - member_of_vm.keys()
    if foreign:
        raise ControllerActionError(f"VM {min(foreign)} is not in cluster {cluster.name}")
    # A VM that is already leaving stays so until it can be ended.
    victims = [member_of_vm[vm] for vm in set(action.victims) if not member_of_vm[vm].leaving]
    count = action.count
    if count is None:
        count = platform.sizes.get(cluster.name, 0) - len(victims)
    if not cluster.least <= count <= cluster.most:
        raise ControllerActionError(
            f"the size of cluster {cluster.name} must be from {cluster.least} to {cluster.most}"
            f" VMs (got {count})"
        )
    PLATFORM_VMS.mark_leaving(connection, [victim.key for victim in victims])
    text = action.reason or f"{count} VMs in {cluster.name}"
    record_size(
        connection,
        platform,
        {cluster.name: count},
        _doing(platform, action_id, "size", text, at_s),
    )


def _limit(
    connection: sa.Connection, platform: PlatformRow, action_id: str, action: SetLimit, at_s: float
) -> None:
    order = limit_order_store.of_platforms(connection, platform.id).get(platform.id)
    if order is None:
        raise ControllerActionError(f"platform {platform.id} has no limit order: its VMs bid")
    budget = None if platform.account is None else ledger.budget_of(connection, platform.account)
    has = 0.0 if budget is None else budget.balance / MICRO
    if not 0 < action.limit <= has * (1 + 1e-9):
        raise ControllerActionError(
            f"a limit must be above 0 and at most {credits_text(has)} credits, its balance (got"
            f" {action.limit!r})"
        )
    limit_order_store.change(connection, replace(order, limit=action.limit))
    text = action.reason or f"at most {credits_text(action.limit)} credits a period"
    platform_store.replace_action(connection, _doing(platform, action_id, "limit", text, at_s))


def _report(
    connection: sa.Connection,
    platform: PlatformRow,
    action_id: str,
    action: ProgressReport,
    at_s: float,
) -> None:
    numbers = (
        *(action.projected_end_s, action.performance, action.reference),
        *(action.done, action.work_left_s),
    )
    if not all(isfinite(number) for number in numbers if number is not None):
        raise ControllerActionError("the numbers of a report must be finite")
    if action.done is not None and not 0 <= action.done <= 1:
        raise ControllerActionError(f"done must be from 0 to 1 (got {action.done:g})")
    if action.work_left_s is not None and action.work_left_s < 0:
        raise ControllerActionError(f"work_left_s must be at least 0 (got {action.work_left_s:g})")
    report = asdict(action) | {"at_s": at_s, "text": action.text[:_LONGEST]}
    platform_store.change(connection, platform.id, report=report)
    platform_store.replace_action(
        connection, _doing(platform, action_id, "report", action.text, at_s)
    )


def _pass(what: Event, ending: PlatformState) -> Callable[..., None]:
    def take(
        connection: sa.Connection,
        platform: PlatformRow,
        action_id: str,
        action: SuspendPlatform | WorkDone | GiveUp,
        at_s: float,
    ) -> None:
        event = LifecycleEvent(event=what, why=action.reason[:_LONGEST], ending=ending)
        after = record_transition(connection, platform, event, at_s, CONTROLLER, action_id)
        if after.state == platform.state:
            raise ControllerActionError(f"platform {platform.id} is {platform.state}")

    return take


def _doing(
    platform: PlatformRow, action: str, what: str, text: str, at_s: float, *, refused: bool = False
) -> PlatformAction:
    return PlatformAction(
        platform=platform.id,
        at_s=at_s,
        who=CONTROLLER,
        what=what,
        text=text[:_LONGEST],
        action=action,
        refused=refused,
    )


_TAKE: Final[Mapping[type, Callable[..., None]]] = {
    SetBids: _bids,
    SetSize: _size,
    SetLimit: _limit,
    ProgressReport: _report,
    SuspendPlatform: _pass(Event.SUSPEND, PlatformState.FAILED),
    WorkDone: _pass(Event.STOP, PlatformState.DONE),
    GiveUp: _pass(Event.STOP, PlatformState.FAILED),
}
_WORD: Final[Mapping[type, str]] = {
    SetBids: "bids",
    SetSize: "size",
    SetLimit: "limit",
    ProgressReport: "report",
    SuspendPlatform: "suspend",
    WorkDone: "done",
    GiveUp: "give up",
}

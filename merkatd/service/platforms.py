"""The service of virtual platforms: views, and orders to their manager."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, TypeVar

import sqlalchemy as sa

from merkatd.base import toml_reader
from merkatd.base.quantities import quoted_value
from merkatd.database.base.savepoints import SeparateWork
from merkatd.database.fleets import platform_store
from merkatd.database.fleets.platform_store import PlatformRow
from merkatd.fleets.vm_template_text import CALLER, TemplateError
from merkatd.platforms import platform_views
from merkatd.platforms.declarations.template_time import TemplateTime, moment_of_text
from merkatd.platforms.lifecycle.platform_template import NO_CONTROLLER, PlatformTemplate
from merkatd.platforms.lifecycle.template_checks import CheckedTemplate
from merkatd.platforms.manager import Manager
from merkatd.platforms.platform_views import (
    PlatformDetails,
    PlatformSummary,
    PlatformVm,
    SeenPlatformVm,
)
from merkatd.platforms.tenant_orders import Update, fetched_vm_templates, require_platform
from merkatd.scheduler.period import Scheduler
from merkatd.scheduler.phases.announce import Announcement
from merkatd.service.base.callers import Caller, CallerRights, require_admin, require_tenant
from merkatd.service.base.errors import InvalidRequestError, NotPermittedError
from merkatd.service.base.ledger_errors import ledger_errors_translated

__all__ = [
    "MOST_PERFORMANCE",
    "PlatformDetails",
    "PlatformService",
    "PlatformSummary",
    "PlatformVm",
    "SeenPlatformVm",
    "Update",
    "deadline_of",
]
MOST_PERFORMANCE = toml_reader.MAX_NUMBER

Result = TypeVar("Result")


class PlatformService:
    """The platforms of tenants."""

    def __init__(self, scheduler: Scheduler, manager: Manager, callers: CallerRights) -> None:
        self._scheduler = scheduler
        self._manager = manager
        self._callers = callers

    async def require_managed(self, caller: Caller, platform: int) -> None:
        """Raise NotPermittedError or UnknownObjectError if the caller may not manage it."""
        with ledger_errors_translated():
            owner = await self._scheduler.world.database.read(
                lambda connection: require_platform(connection, platform, lock=False).owner
            )
        if not caller.is_admin and caller.uid != owner:
            raise NotPermittedError(
                f"User [{caller.uid}] : Not authorized to perform MANAGE PLATFORM [{platform}].",
                platform,
            )

    async def platforms(
        self, caller: Caller, owner: int | None = None
    ) -> Sequence[PlatformSummary]:
        """Return the platforms of a tenant, or of all, with the newest ended ones."""
        if owner is None:
            require_admin(caller, "ADMIN PLATFORMS")
        else:
            require_tenant(caller, owner)
        return await self._scheduler.world.database.read(
            lambda connection: platform_views.rows(
                connection, platform_store.listed(connection, owner)
            )
        )

    async def platform(
        self, caller: Caller, platform: int, latest: Announcement | None = None
    ) -> PlatformDetails:
        """Return a platform; its VMs are as in the period `latest`, by default the newest."""
        await self.require_managed(caller, platform)
        return await self._shown(platform, latest)

    async def submit(
        self, caller: Caller, owner: int, text: str, once: str = ""
    ) -> PlatformDetails:
        """Create a platform of a tenant from the text of a template, and return it.

        A caller that repeats the order with the same `once` gets the platform of the first.
        """
        token = sha256(f"{caller.uid} {owner} {once}".encode()).hexdigest() if once else ""

        async def done(given: CheckedTemplate, vm_templates: dict[str, str]) -> PlatformDetails:
            new = replace(given, token=token)
            stored = await self._manager.submit(owner, new, vm_templates, caller.author, self.view)
            self._scheduler.wake_for(caller.uid)
            return stored

        return await self._with_template(caller, owner, text, done)

    async def problems(self, text: str) -> Sequence[str]:
        """Return all problems of a template on this site; the prices and credits do not matter."""
        try:
            await self._manager.fitting(text)
        except TemplateError as error:
            return error.problems
        return ()

    def offer(self) -> tuple[Sequence[str], Sequence[str]]:
        """Return the kinds of controllers and the markets that a template can name."""
        offered = self._manager.offered()
        return (*offered.kinds.controllers, NO_CONTROLLER), offered.markets

    async def try_submit(self, caller: Caller, owner: int, text: str) -> PlatformDetails:
        """Return the result of `submit`, and store nothing."""

        async def tried(given: CheckedTemplate, vm_templates: dict[str, str]) -> PlatformDetails:
            return await self._manager.try_submission(owner, given, vm_templates, self.view)

        return await self._with_template(caller, owner, text, tried)

    async def tried(
        self,
        caller: Caller,
        owner: int,
        text: str,
        tell: Callable[[sa.Connection, PlatformRow], Result],
        require: Callable[[PlatformTemplate], None],
    ) -> Result:
        """Return `tell` of the platform that `submit` would store, and store nothing.

        `require` raises RequestError if the template is not the expected one.
        """

        async def tried(given: CheckedTemplate, vm_templates: dict[str, str]) -> Result:
            return await self._manager.try_submission(owner, given, vm_templates, tell)

        return await self._with_template(caller, owner, text, tried, require)

    async def update(self, caller: Caller, platform: int, change: Update) -> PlatformDetails:
        """Change a platform's goals or budget, and return it."""
        await self.require_managed(caller, platform)
        with ledger_errors_translated():
            changed = await self._manager.update(platform, change, caller.author, self.view)
        self._scheduler.wake_for(caller.uid)
        return changed

    async def try_update(self, caller: Caller, platform: int, change: Update) -> PlatformDetails:
        """Return the result of `update`, and store nothing."""
        await self.require_managed(caller, platform)
        with ledger_errors_translated():
            return await self._manager.try_update(platform, change, self.view)

    async def suspend(self, caller: Caller, platform: int) -> PlatformDetails:
        """Suspend a platform until an order resumes it, and return it."""
        return await self._ordered(caller, platform, self._manager.suspend)

    async def resume(self, caller: Caller, platform: int) -> PlatformDetails:
        """Resume a platform now, whatever the price, and return it."""
        return await self._ordered(caller, platform, self._manager.resume)

    async def stop(self, caller: Caller, platform: int) -> PlatformDetails:
        """End a platform, and return it."""
        return await self._ordered(caller, platform, self._manager.stop)

    async def _ordered(
        self, caller: Caller, platform: int, order: Callable[[int, str], Awaitable[PlatformRow]]
    ) -> PlatformDetails:
        await self.require_managed(caller, platform)
        with ledger_errors_translated():
            await order(platform, caller.author)
        self._scheduler.wake_for(caller.uid)
        return await self._shown(platform, None)

    async def _with_template(
        self,
        caller: Caller,
        owner: int,
        text: str,
        work: Callable[[CheckedTemplate, dict[str, str]], Awaitable[Result]],
        require: Callable[[PlatformTemplate], None] = lambda _template: None,
    ) -> Result:
        require_tenant(caller, owner)
        if not text:
            raise InvalidRequestError(
                f"template: must be the text of a template (got {quoted_value(text)})"
            )
        ask = self._callers.ask_of(caller)
        # OpenNebula shows each user to itself without any further right.
        itself = caller.uid == owner and not caller.is_local
        try:
            given = await self._manager.fitting(text)
            require(given.template)
            vm_templates = await fetched_vm_templates(
                given.template, ask, admin=caller.is_admin, owner=CALLER if itself else owner
            )
            with ledger_errors_translated():
                return await work(given, vm_templates)
        except TemplateError as error:
            raise InvalidRequestError(f"template: {'; '.join(error.problems)}") from None

    async def _shown(self, platform: int, latest: Announcement | None) -> PlatformDetails:
        """Return a platform; a broken platform in part."""
        world, at = self._scheduler.world, latest or self._scheduler.latest

        def read(connection: sa.Connection) -> PlatformDetails:
            row = require_platform(connection, platform, lock=False)
            apart = SeparateWork(connection)
            details = apart.look(
                platform, lambda: platform_views.platform_view(connection, row, world, at), None
            )
            if details is not None:
                return details
            return platform_views.partial_view(connection, row, world, apart.failed[platform])

        with ledger_errors_translated():
            return await world.database.read(read)

    def view(self, connection: sa.Connection, row: PlatformRow) -> PlatformDetails:
        """Return the full view of a stored platform, as of the latest period."""
        scheduler = self._scheduler
        return platform_views.platform_view(connection, row, scheduler.world, scheduler.latest)


def deadline_of(value: Any) -> TemplateTime | None:
    """Return a deadline: "6h" from now, or a time in the form of templates. Raise RequestError."""
    if value is None:
        return None
    try:
        return moment_of_text(value)
    except ValueError as error:
        raise InvalidRequestError(f"deadline: {quoted_value(value)}: {error}") from None

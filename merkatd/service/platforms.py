"""Questions about virtual platforms and orders to them, for all interfaces of the daemon.

The questions of the control socket check no permissions: the socket's file mode does.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import sqlalchemy as sa

from merkatd.base import toml_reader
from merkatd.base.quantities import shown
from merkatd.database.base.savepoints import Apart
from merkatd.database.fleets import platform_store
from merkatd.database.fleets.platform_store import PlatformRow
from merkatd.fleets.vm_template_text import Ask, TemplateError
from merkatd.ledger import MOST_CREDITS, Ledger
from merkatd.platforms import platform_views
from merkatd.platforms.lifecycle import template_reader
from merkatd.platforms.lifecycle.platform_template import TemplateTime
from merkatd.platforms.lifecycle.template_checks import Fitting
from merkatd.platforms.manager import Manager
from merkatd.platforms.tenant_orders import Update, fetched_vm_templates, require_platform
from merkatd.scheduler.period import Scheduler
from merkatd.service.accounts import ledger_errors_as_refusals, owner_of
from merkatd.service.base.arguments import Arguments, number, who, whole
from merkatd.service.base.errors import InvalidRequestError

Row = dict[str, Any]


class PlatformQuestions:
    """The questions about platforms, and the orders to their manager."""

    def __init__(self, scheduler: Scheduler, manager: Manager, ledger: Ledger, ask: Ask) -> None:
        """`ask` calls OpenNebula with the daemon's login."""
        self._scheduler = scheduler
        self.manager = manager
        self._ask = ask
        self.ledger = ledger
        self.known: Mapping[str, Callable[[Arguments], Awaitable[Any]]] = {
            name: ledger_errors_as_refusals(answer)
            for name, answer in (
                ("platforms", self._platforms),
                ("platform", self._platform),
                ("platform_submit", self._submit),
                ("platform_update", self._update),
                ("platform_suspend", self._suspend),
                ("platform_resume", self._resume),
                ("platform_stop", self._stop),
            )
        }

    # -- for every interface -----------------------------------------------------------------------

    async def owner_of(self, platform: int) -> int:
        """Return the owner of the platform. Raise NotFoundError."""
        return await self._scheduler.world.database.read(
            lambda connection: require_platform(connection, platform).owner
        )

    async def shown(self, platform: int) -> Row:
        """Return all details of the platform. Raise NotFoundError."""
        world = self._scheduler.world

        def read(connection: sa.Connection) -> Row:
            one = require_platform(connection, platform)
            apart = Apart(connection)
            row = apart.look(platform, lambda: self._shown(connection, one), None)
            if row is not None:
                return row
            return platform_views.shown_in_part(connection, one, world, apart.failed[platform])

        return await world.database.read(read)

    def _shown(self, connection: sa.Connection, one: PlatformRow) -> Row:
        scheduler = self._scheduler
        return platform_views.platform_view(connection, one, scheduler.world, scheduler.latest)

    async def listed(self, owner: int | None) -> list[Row]:
        """Return summaries of the platforms of a tenant or of all, with the newest ended ones."""
        return await self._scheduler.world.database.read(
            lambda connection: platform_views.rows(
                connection, platform_store.listed(connection, owner)
            )
        )

    async def submit(self, owner: int, text: Any, ask: Ask, who_: str, *, admin: bool) -> Row:
        """Create a platform of a tenant and return it. Raise InvalidRequestError.

        `ask` calls OpenNebula with the tenant's login.
        """

        async def done(given: Fitting, vm_templates: dict[str, str]) -> Row:
            return await self.manager.submit(owner, given, vm_templates, who_, self._shown)

        return await self._with_template(text, ask, done, admin=admin)

    async def try_submit(self, owner: int, text: Any, ask: Ask, *, admin: bool) -> Row:
        """Return what `submit` would return, and store nothing. Raise InvalidRequestError."""

        async def tried(given: Fitting, vm_templates: dict[str, str]) -> Row:
            return await self.manager.try_submission(owner, given, vm_templates, self._shown)

        return await self._with_template(text, ask, tried, admin=admin)

    async def _with_template(
        self,
        text: Any,
        ask: Ask,
        work: Callable[[Fitting, dict[str, str]], Awaitable[Row]],
        *,
        admin: bool,
    ) -> Row:
        if not isinstance(text, str) or not text:
            raise InvalidRequestError(
                f"template: must be the text of a template (got {shown(text)})"
            )
        try:
            given = await self.manager.fitting(text)
            return await work(given, await fetched_vm_templates(given.template, ask, admin=admin))
        except TemplateError as error:
            raise InvalidRequestError(f"template: {'; '.join(error.problems)}") from None

    async def change(self, platform: int, given: Arguments, who_: str) -> Row:
        """Change a platform's goals or budget. Raise InvalidRequestError or LedgerError."""
        return await self.manager.update(platform, _update(given), who_, self._shown)

    async def try_change(self, platform: int, given: Arguments) -> Row:
        """Return what `change` would return, and store nothing. Raise the same errors."""
        return await self.manager.try_update(platform, _update(given), self._shown)

    async def order(
        self, what: Callable[[int, str], Awaitable[PlatformRow]], platform: int, who_: str
    ) -> Row:
        """Give the order `what` and return the platform after it. Raise LedgerError."""
        await what(platform, who_)
        return await self.shown(platform)

    # -- for the control socket ---------------------------------------------------------------

    async def _platforms(self, arguments: Arguments) -> list[Row]:
        """Return summaries of all platforms, or of those of `tenant`."""
        if arguments.get("tenant") is None:
            return await self.listed(None)
        return await self.listed(await owner_of(self.ledger, arguments))

    async def _platform(self, arguments: Arguments) -> Row:
        """Return the `platform` with this id."""
        return await self.shown(_id(arguments))

    async def _submit(self, arguments: Arguments) -> Row:
        """Create a platform of `tenant` from the text of a `template`."""
        owner = await owner_of(self.ledger, arguments)
        text = arguments.get("template")
        return await self.submit(owner, text, self._ask, who(arguments), admin=True)

    async def _update(self, arguments: Arguments) -> Row:
        """Change the `deadline`, `performance`, `budget` or `replenishment` of a `platform`."""
        return await self.change(_id(arguments), arguments, who(arguments))

    async def _suspend(self, arguments: Arguments) -> Row:
        """Suspend a `platform` until an order resumes it."""
        return await self.order(self.manager.suspend, _id(arguments), who(arguments))

    async def _resume(self, arguments: Arguments) -> Row:
        """Resume a `platform`."""
        return await self.order(self.manager.resume, _id(arguments), who(arguments))

    async def _stop(self, arguments: Arguments) -> Row:
        """End a `platform`."""
        return await self.order(self.manager.stop, _id(arguments), who(arguments))


def _update(given: Arguments) -> Update:
    return Update(
        deadline=deadline_of(given.get("deadline")),
        budget=number(given, "budget", MOST_CREDITS),
        replenishment=number(given, "replenishment", MOST_CREDITS),
        performance=number(given, "performance", toml_reader.MAX_NUMBER),
    )


def deadline_of(value: Any) -> TemplateTime | None:
    """Return a deadline: "6h" from now, or a time in the form of templates. Raise RequestError."""
    if value is None:
        return None
    try:
        return template_reader.moment_of_text(value)
    except ValueError as error:
        raise InvalidRequestError(f"deadline: {shown(value)}: {error}") from None


def _id(arguments: Arguments) -> int:
    value = whole(arguments, "platform")
    if value is None:
        raise InvalidRequestError("platform: must be the id of a platform")
    return value

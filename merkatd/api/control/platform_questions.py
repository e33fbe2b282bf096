"""The control socket's questions about virtual platforms, and orders to them."""

from collections.abc import Awaitable, Callable
from typing import Any

from merkatd.api.control.account_questions import tenant_of
from merkatd.api.values.limit_order_rows import platform_quote_row
from merkatd.api.values.plain_values import members
from merkatd.api.values.platform_arguments import update_of
from merkatd.base.quantities import quoted_value
from merkatd.service.base.arguments import Arguments, order_author, whole
from merkatd.service.base.callers import LOCAL, Caller
from merkatd.service.base.errors import InvalidRequestError
from merkatd.service.platforms import PlatformDetails, PlatformService
from merkatd.service.services import DaemonServices

Row = dict[str, Any]
"""An answer for JSON."""


class PlatformQuestions:
    """The questions about platforms."""

    def __init__(self, services: DaemonServices, platforms: PlatformService) -> None:
        self._services = services
        self._platforms = platforms
        self._accounts = services.accounts
        self.known = {
            "platforms": self._list,
            "platform": self._show,
            "platform_quote": self._quote,
            "platform_submit": self._submit,
            "platform_update": self._update,
            "platform_suspend": self._suspend,
            "platform_resume": self._resume,
            "platform_stop": self._stop,
        }

    async def _list(self, arguments: Arguments) -> list[Row]:
        """Return summaries of all platforms, or of those of `tenant`."""
        owner = None
        if arguments.get("tenant") is not None:
            owner = await tenant_of(self._accounts, arguments)
        return [members(platform) for platform in await self._platforms.platforms(LOCAL, owner)]

    async def _show(self, arguments: Arguments) -> Row:
        """Return the `platform` with this id."""
        return members(await self._platforms.platform(LOCAL, _id(arguments)))

    async def _submit(self, arguments: Arguments) -> Row:
        """Create a platform of `tenant` from the text of a `template`."""
        owner = await tenant_of(self._accounts, arguments)
        submitted = await self._platforms.submit(_author(arguments), owner, _template(arguments))
        return members(submitted)

    async def _quote(self, arguments: Arguments) -> Row:
        """Return the limits of a patient platform of `tenant`, from the text of a `template`."""
        owner = await tenant_of(self._accounts, arguments)
        view = await self._services.views.prepared()
        quotes = self._services.require_platform_quotes()
        return platform_quote_row(await quotes.quote(LOCAL, view, owner, _template(arguments)))

    async def _update(self, arguments: Arguments) -> Row:
        """Change the `deadline`, `performance`, `budget` or `replenishment` of a `platform`."""
        platform, change = _id(arguments), update_of(arguments)
        return members(await self._platforms.update(_author(arguments), platform, change))

    async def _suspend(self, arguments: Arguments) -> Row:
        """Suspend a `platform` until an order resumes it."""
        return await _ordered(self._platforms.suspend, arguments)

    async def _resume(self, arguments: Arguments) -> Row:
        """Resume a `platform`."""
        return await _ordered(self._platforms.resume, arguments)

    async def _stop(self, arguments: Arguments) -> Row:
        """End a `platform`."""
        return await _ordered(self._platforms.stop, arguments)


async def _ordered(
    order: Callable[[Caller, int], Awaitable[PlatformDetails]], arguments: Arguments
) -> Row:
    platform = _id(arguments)
    return members(await order(_author(arguments), platform))


def _template(arguments: Arguments) -> str:
    text = arguments.get("template")
    if not isinstance(text, str):
        raise InvalidRequestError(
            f"template: must be the text of a template (got {quoted_value(text)})"
        )
    return text


def _author(arguments: Arguments) -> Caller:
    """Return LOCAL with the stated author of an order."""
    return LOCAL.signing(order_author(arguments))


def _id(arguments: Arguments) -> int:
    value = whole(arguments, "platform")
    if value is None:
        raise InvalidRequestError("platform: must be the id of a platform")
    return value

"""Quotes on the page count like orders, because they cost the daemon as much work."""

from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred
from twisted.internet.task import Clock

from merkatd.service.base.callers import Caller
from merkatd.service.base.errors import TooManyOrdersError
from merkatd.service.base.identity import Identity
from merkatd.service.base.order_limits import OrderCounts
from merkatd.service.base.turns import FairTurns
from merkatd.web.base.routes import PageRequest
from merkatd.web.pages import platform_form_pages

ANN, ADMIN = (Identity(uid, "name", frozenset({group}), group) for uid, group in ((5, 1), (0, 0)))
_LARGE = "x" * 32_768


class BegunError(Exception):
    """Raised when a quote starts."""


class Page:
    """The page of a daemon whose users may give three orders an hour."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def begun(*_: Any, **__: Any) -> Any:
            raise BegunError

        async def no_problems(_: str) -> list[str]:
            return []

        async def row(_: Any) -> Any:
            return SimpleNamespace(id=7, name="weather")

        monkeypatch.setattr(platform_form_pages, "shown_platform", row)
        self.house: Any = SimpleNamespace(
            orders=OrderCounts(Clock(), 3.0),
            sign_ins=SimpleNamespace(ask=begun),
            long_reads=FairTurns(2, per_key=1),
            require_platforms=lambda: SimpleNamespace(
                try_submit=begun, try_update=begun, problems=no_problems
            ),
        )

    def outcome(self, function: Any, user: Identity, **form: str) -> type[BaseException]:
        """Return the type of the error with which a user's form ends."""
        nothing: Any = None
        here = PageRequest(
            house=self.house,
            goals=nothing,
            past=nothing,
            caller=Caller(user, "ann:secret"),
            asked=SimpleNamespace(field=lambda name: form.get(name, "")),  # type: ignore[arg-type]
            form="",
            id=7,
            prepared=None,
            reading=nothing,
        )
        errors: list[Any] = []
        ensureDeferred(function(here)).addErrback(errors.append)
        kind: type[BaseException] = errors[0].type
        return kind


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Page:
    """Return a page for one test."""
    return Page(monkeypatch)


@pytest.mark.parametrize(
    ("function", "form"),
    [
        (platform_form_pages.quote_new, {"template": "name = 1"}),
        (platform_form_pages.quote_change, {"budget": "5"}),
    ],
)
def test_quotes_count_like_their_orders(page: Page, function: Any, form: dict[str, str]) -> None:
    """A tenant is rejected beyond the limit, and an administrator never."""
    kinds = [page.outcome(function, ANN, **form) for _ in range(4)]
    assert kinds == [BegunError, BegunError, BegunError, TooManyOrdersError]
    assert [page.outcome(function, ADMIN, **form) for _ in range(9)] == [BegunError] * 9


def test_the_quote_of_a_large_template_counts_as_several(page: Page) -> None:
    """Its size counts like that of an order."""
    kinds = [page.outcome(platform_form_pages.quote_new, ANN, template=_LARGE) for _ in range(2)]
    assert kinds == [BegunError, TooManyOrdersError]

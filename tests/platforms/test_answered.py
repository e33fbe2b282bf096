"""Orders of tenants: unshowable results are not stored; texts are checked before transactions."""

from typing import Any

import pytest

from merkatd.database.fleets import platform_store
from merkatd.platforms import platform_views
from merkatd.platforms.tenant_orders import Update
from merkatd.service.base.callers import LOCAL
from merkatd.service.base.errors import InvalidRequestError
from tests.platforms.site import Site, platforms_at, template


class BrokenError(Exception):
    """Stands for any error in showing a platform."""


def submitted(site: Site, text: str) -> Any:
    """Return the answer to the submission of a template."""
    questions = platforms_at(site)
    return site.wait(questions.submit(LOCAL, site.ann, text))


def fail(*_: Any) -> Any:
    """Fail in place of a function that shows a platform."""
    raise BrokenError


def test_a_platform_that_cannot_be_shown_is_not_stored(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon answers a submission with an error, and moves no credits."""
    before = site.balances()
    monkeypatch.setattr(platform_views, "summary", fail)
    with pytest.raises(BrokenError):
        submitted(site, template())
    assert site.read(platform_store.living) == ()
    assert site.balances() == before


def test_a_change_that_cannot_be_shown_is_not_stored(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon answers a change with an error, and the platform stays unchanged."""
    platform = site.submit()
    monkeypatch.setattr(platform_views, "summary", fail)
    with pytest.raises(BrokenError):
        site.wait(platforms_at(site).update(LOCAL, platform, Update(performance=2.0, budget=9.0)))
    assert site.platform(platform).performance is None


@pytest.mark.parametrize(
    "changes",
    [
        {"controller": '[controller]\nkind = "unknown"'},
        {"top": 'name = "a"\nmarket = "unknown"'},
        {"top": 'name = "a b"'},
    ],
)
def test_a_template_is_checked_before_a_transaction(site: Site, changes: dict[str, str]) -> None:
    """An invalid template does not block the database, however long its check takes."""
    database = site.scheduler.world.database
    before = database.answered  # type: ignore[attr-defined]
    with pytest.raises(InvalidRequestError, match="template: "):
        submitted(site, template(**changes))
    assert database.answered == before  # type: ignore[attr-defined]

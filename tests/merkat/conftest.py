"""One daemon for all tests of the command."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.merkat.shell import TenantShell
from tests.onegroup.site import Site

_MARKETS = """
[market.default]
[market.groups]
cluster_names = ["for groups"]
strategy = "groups"
"""


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Yield the daemon's site; end it with SIGTERM."""
    made = Site(tmp_path_factory.mktemp("site"), _MARKETS)
    yield made
    made.end()


@pytest.fixture
def away(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> TenantShell:
    """Return a shell of Ann's that knows no daemon."""
    return TenantShell(tmp_path, capsys, monkeypatch)


@pytest.fixture
def shell(site: Site, away: TenantShell) -> TenantShell:
    """Return a shell of Ann's that knows the site's daemon."""
    away.set("MERKAT_ENDPOINT", site.endpoint)
    return away

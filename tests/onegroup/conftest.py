"""One daemon for all tests of the command."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.onegroup.site import MARKETS, Shell, Site


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Yield the daemon's site; end it with SIGTERM."""
    made = Site(tmp_path_factory.mktemp("site"), MARKETS)
    yield made
    made.end()


@pytest.fixture
def shell(
    site: Site,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Shell:
    """Return a shell for the user Ann."""
    return Shell(site, tmp_path, capsys, monkeypatch)

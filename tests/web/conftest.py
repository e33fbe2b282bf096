"""One daemon for all tests of the page that need no daemon of their own; Ann has secret names."""

from collections.abc import Iterator

import pytest

from tests.web.site import PageSite


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageSite]:
    """Yield the daemon's site; end it with SIGTERM."""
    made = PageSite(tmp_path_factory.mktemp("page"))
    yield made
    made.end()

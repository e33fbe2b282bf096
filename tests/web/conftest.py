"""One daemon for all tests of the page that don't need their own; Ann has much that is secret."""

from collections.abc import Iterator

import pytest

from tests.web.site import PageSite


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageSite]:
    """Ended with SIGTERM."""
    made = PageSite(tmp_path_factory.mktemp("page"))
    yield made
    made.end()

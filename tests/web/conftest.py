"""One daemon for all tests of the page that need no daemon of their own; Ann has secret names.

It trusts a proxy on the same machine. No browser of the other tests sends `X-Forwarded-For`.
"""

from collections.abc import Iterator

import pytest

from tests.web.site import PageSite


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageSite]:
    """Yield the daemon's site; end it with SIGTERM."""
    made = PageSite(tmp_path_factory.mktemp("page"), 'trusted_proxies = ["127.0.0.1"]\n')
    yield made
    made.end()

"""One daemon for all tests of the tenants' interface that need no own daemon."""

from collections.abc import Iterator

import pytest

from tests.api.xmlrpc.site import Site

_CONFIG = """
login = "300ms"
refusal = "50ms"
[market.default]
[market.groups]
cluster_names = ["for groups"]
strategy = "groups"
"""


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Return a site that is stopped with SIGTERM."""
    made = Site(tmp_path_factory.mktemp("site"), _CONFIG)
    yield made
    made.end()

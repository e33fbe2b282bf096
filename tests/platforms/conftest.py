"""A site for each test."""

from collections.abc import Iterator

import pytest

from tests.platforms.site import Site


@pytest.fixture
def site() -> Iterator[Site]:
    """Yield three hosts of four cores and 8 GiB, two tenants, no platform yet."""
    made = Site()
    yield made
    made.agree()
    made.close()

"""A site for each test."""

from collections.abc import Iterator

import pytest

from tests.groups.site import Site


@pytest.fixture
def site() -> Iterator[Site]:
    """Yield three hosts of four cores, shared by groups; three users, no group yet."""
    made = Site()
    yield made
    made.agree()
    made.close()

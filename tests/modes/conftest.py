"""A daemon in virtual time whose mode is changed."""

from collections.abc import Iterator

import pytest

from tests.modes.site import Site


@pytest.fixture
def site() -> Iterator[Site]:
    """Three hosts of four cores and 8 GiB, nothing on them."""
    made = Site()
    yield made
    made.close()

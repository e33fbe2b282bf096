"""A daemon in virtual time in changing modes."""

from collections.abc import Iterator

import pytest

from tests.modes.site import Site


@pytest.fixture
def site() -> Iterator[Site]:
    """Return a site of three empty hosts of four cores and 8 GiB."""
    made = Site()
    yield made
    made.close()

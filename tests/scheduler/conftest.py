"""A frontend for each test."""

from collections.abc import Iterator

import pytest

from tests.scheduler.frontend import Frontend


@pytest.fixture
def frontend() -> Iterator[Frontend]:
    """Three hosts of four cores and 8 GiB, nothing on them."""
    made = Frontend()
    yield made
    made.close()

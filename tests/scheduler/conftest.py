"""A frontend for each test."""

from collections.abc import Iterator

import pytest

from tests.scheduler.frontend import Frontend


@pytest.fixture
def frontend() -> Iterator[Frontend]:
    """Return a frontend with three empty hosts of four cores and 8 GiB."""
    made = Frontend()
    yield made
    made.close()

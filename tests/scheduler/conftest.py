"""A frontend for each test."""

from collections.abc import Iterator

import pytest

from tests.scheduler.frontend import Frontend
from tests.scheduler.scripted_strategy import Script, scripted


@pytest.fixture
def frontend() -> Iterator[Frontend]:
    """Return a frontend with three empty hosts of four cores and 8 GiB."""
    made = Frontend()
    yield made
    made.close()


@pytest.fixture
def script() -> Iterator[Script]:
    """Yield the script of the strategy."""
    with scripted() as made:
        yield made

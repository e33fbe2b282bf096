"""Sites for tests of the daemon."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon import soak
from tests.daemon.harness import Site
from tests.daemon.harness import site as running


@pytest.fixture
def site(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    """A cloud and a daemon that are running; with the seed that the test is given, if any."""
    with running(tmp_path, getattr(request, "param", soak.FIRST_SEED)) as found:
        yield found

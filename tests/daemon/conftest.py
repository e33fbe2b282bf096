"""Sites for tests of the daemon."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon import soak
from tests.daemon.harness import Site
from tests.daemon.harness import site as running


@pytest.fixture
def site(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    """Start a cloud and a daemon, with the seed of the test if it has one."""
    with running(tmp_path, getattr(request, "param", soak.FIRST_SEED)) as running_site:
        yield running_site

"""The worlds that tests of the contract run in."""

from collections.abc import Iterator

import pytest

from tests.opennebula.worlds import RealTime, World, in_memory, over_http


@pytest.fixture(scope="session")
def real_time() -> Iterator[RealTime]:
    """One reactor for all tests over HTTP."""
    time = RealTime()
    yield time
    time.close()


@pytest.fixture(params=["memory", "http"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """Each endpoint in turn, with three hosts."""
    if request.param == "memory":
        yield in_memory()
    else:
        yield from over_http(request.getfixturevalue("real_time"))


@pytest.fixture
def http_world(real_time: RealTime) -> Iterator[World]:
    """Real HTTP only."""
    yield from over_http(real_time)

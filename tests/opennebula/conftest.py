"""The worlds of the contract tests."""

from collections.abc import Iterator

import pytest

from tests.opennebula.worlds import RealTime, World, in_memory, over_http


@pytest.fixture(scope="session")
def real_time() -> Iterator[RealTime]:
    """Yield one reactor for all tests over HTTP."""
    time = RealTime()
    yield time
    time.close()


@pytest.fixture(params=["memory", "http"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """Yield each endpoint in turn, with three hosts."""
    if request.param == "memory":
        yield in_memory()
    else:
        yield from over_http(request.getfixturevalue("real_time"))


@pytest.fixture
def http_world(real_time: RealTime) -> Iterator[World]:
    """Yield a world over real HTTP only."""
    yield from over_http(real_time)

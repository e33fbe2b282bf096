"""An empty database for each test: in memory, or in a file where connections must differ."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from merkatd.database.engine import make_engine
from merkatd.database.tables import METADATA


@pytest.fixture
def connection() -> Iterator[sa.Connection]:
    """A connection inside a transaction that is never committed."""
    engine = make_engine("sqlite://")
    METADATA.create_all(engine)
    with engine.connect() as opened:
        yield opened
    engine.dispose()


@pytest.fixture
def file_engine(tmp_path: Path) -> Iterator[sa.Engine]:
    """An engine on a file, for tests with more than one connection."""
    engine = make_engine(f"sqlite:///{tmp_path / 'merkat.db'}")
    METADATA.create_all(engine)
    yield engine
    engine.dispose()

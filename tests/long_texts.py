"""A VM's text that is too long to read, and a lower limit, so that the text takes little time."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from merkatd.opennebula.pools import vm_pool
from tests.lengths import shorten

_LIMIT = shorten(vm_pool.LONG, 20_000)
TOO_LONG = "x" * (_LIMIT + 1_000)


@contextmanager
def lower_limit() -> Iterator[None]:
    """Let VMs' texts be too long from some kilobytes on; `make soak` keeps the limit."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(vm_pool, "LONG", _LIMIT)
        yield

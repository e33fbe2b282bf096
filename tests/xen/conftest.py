"""These tests run in namespaces of their own, by `make test-xen`; nothing else collects them."""

import os

if "MERKAT_REAL" in os.environ:
    from tests.xen.fixtures import guests, port, real_time, xen

    __all__ = ["guests", "port", "real_time", "xen"]
else:
    collect_ignore_glob = ["test_*.py"]

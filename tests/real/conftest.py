"""These tests run only by `make test-real`, in their own namespaces; nothing else collects them."""

import os

if "MERKAT_REAL" in os.environ:
    from tests.real.fixtures import hosts, mortal_hosts, plugs, port, port_lxc, real_time

    __all__ = ["hosts", "mortal_hosts", "plugs", "port", "port_lxc", "real_time"]
else:
    collect_ignore_glob = ["test_*.py", "*/test_*.py"]

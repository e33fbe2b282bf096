"""A cloud of a thousand hosts and ten thousand VMs; run as a program it serves itself."""

from __future__ import annotations

import gc
import sys
import threading
from typing import Any

import numpy as np
from twisted.internet.task import Clock

from merkatd.embedded.cloud import EmbeddedCloud
from merkatd.embedded.model.settings import EmbeddedSettings
from merkatd.embedded.rpc_server import serve
from tests.opennebula.worlds import ADMIN, RealTime

HOSTS, VMS = 1_000, 10_000
TEMPLATE = 'CPU=0.5\nMEMORY=1024\nMERKAT_BID_CPU=3\nMERKAT=[MEMORY="2"]'


def large() -> EmbeddedCloud:
    """Return a cloud in which everything runs and nothing changes any more."""
    clock = Clock()
    cloud = EmbeddedCloud(clock, np.random.default_rng(1), EmbeddedSettings(monitor_interval_s=0))
    cloud.found("secret")
    cloud.add_hosts(HOSTS)
    for vm in range(VMS):
        assert cloud.call("one.vm.allocate", [ADMIN, TEMPLATE]).success
        assert cloud.call("one.vm.deploy", [ADMIN, vm, vm % HOSTS]).success
    clock.advance(5)
    return cloud


def main() -> None:
    """Serve until the input ends."""
    cloud = large()
    gc.freeze()
    time = RealTime()
    reactor: Any = time.reactor
    server = serve(cloud, reactor)
    sys.stdout.write(f"{server.endpoint}\n")
    sys.stdout.flush()

    def until_the_end() -> None:
        sys.stdin.read()
        reactor.callFromThread(time.loop.stop)

    threading.Thread(target=until_the_end).start()
    time.loop.run_forever()
    time.run(server.stop())
    cloud.close()
    time.close()


if __name__ == "__main__":
    main()

"""Serves a large cloud, fetches its pools and measures how long the reactor blocks."""

from __future__ import annotations

import gc
import http.client
import json
import sys
import time
import xmlrpc.client
from typing import Any

import numpy as np
from twisted.internet import asyncioreactor, task
from twisted.internet.defer import ensureDeferred
from twisted.internet.threads import deferToThread

from merkatd.embedded.cloud import EmbeddedCloud
from merkatd.embedded.model.settings import EmbeddedSettings
from merkatd.embedded.rpc_server import RpcServer, serve
from tests.machine_speed import reference_s

asyncioreactor.install()  # type: ignore[no-untyped-call]  # Twisted leaves it untyped

from twisted.internet import reactor as installed  # noqa: E402 - as the daemon will run

reactor: Any = installed
SESSION = "oneadmin:secret"
LONGEST_S = 120
"""Limit until all VMs run; an idle machine takes a second."""


def large_cloud(hosts: int, vms: int) -> EmbeddedCloud:
    """Return a cloud with all VMs deployed."""
    cloud = EmbeddedCloud(reactor, np.random.default_rng(1), EmbeddedSettings(events_per_turn=200))
    cloud.found("secret")
    cloud.add_hosts(hosts)
    template = 'CPU=0.5\nMEMORY=1024\nMERKAT_BID_CPU=3\nMERKAT=[MEMORY="2"]'
    for number in range(vms):
        assert cloud.call("one.vm.allocate", [SESSION, template]).success
        assert cloud.call("one.vm.deploy", [SESSION, number, number % hosts]).success
    return cloud


class Ticker:
    """Measures the longest time between two turns of the reactor, in CPU seconds of the process."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._last_s = time.thread_time()
        self._loop = task.LoopingCall(self._tick)
        self._loop.start(0)

    def _tick(self) -> None:
        now_s = time.thread_time()
        self.longest_s = max(self.longest_s, now_s - self._last_s)
        self._last_s = now_s

    def take(self) -> float:
        """Return and reset the longest time."""
        longest_s, self.longest_s = self.longest_s, 0.0
        return longest_s


def raw_fetch(server: RpcServer, method: str, *arguments: int) -> int:
    """Fetch a pool without parsing it, which would block the server's interpreter too."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
    body = xmlrpc.client.dumps((SESSION, *arguments), method)
    connection.request("POST", "/RPC2", body, {"Content-Type": "text/xml"})
    size = len(connection.getresponse().read())
    connection.close()
    return size


async def probe(cloud: EmbeddedCloud, server: RpcServer, vms: int) -> dict[str, float]:
    """Fetch the pools and return the measurements."""
    running = 0
    for _ in range(LONGEST_S):
        await task.deferLater(reactor, 1.0, lambda: None)
        running = sum(vm.lcm == 3 for vm in cloud.world.vms)
        if running == vms:
            break
    ticker = Ticker()
    measures: dict[str, float] = {"running": running, "reference_s": reference_s()}
    await task.deferLater(reactor, 0.05, lambda: None)
    ticker.take()
    calls: list[tuple[str, str, tuple[int, ...]]] = [
        ("vms", "one.vmpool.infoextended", (-2, -1, -1, -1)),
        ("hosts", "one.hostpool.info", ()),
        ("samples", "one.vmpool.monitoring", (-2, 0)),
    ]
    for name, method, arguments in calls:
        for time_ in ("cold", "warm"):
            begun = time.monotonic()
            measures[f"{name} {time_} bytes"] = await deferToThread(
                raw_fetch, server, method, *arguments
            )
            measures[f"{name} {time_} s"] = time.monotonic() - begun
            measures[f"{name} {time_} held s"] = ticker.take()
    measures |= least_joined(cloud)
    return measures


def least_joined(cloud: EmbeddedCloud) -> dict[str, float]:
    """Return size and shortest time of three for a warm pool as text."""
    took = []
    for _ in range(3):
        begun = time.process_time()
        text = str(cloud.call("one.vmpool.infoextended", [SESSION, -2, -1, -1, -1]).plain()[1])
        took.append(time.process_time() - begun)
    return {"joined bytes": len(text), "joined s": min(took)}


def main(hosts: int, vms: int) -> None:
    """Print the measurements as JSON."""
    begun = time.process_time()
    cloud = large_cloud(hosts, vms)
    built_s = time.process_time() - begun
    # The command does this too once its cloud is built.
    gc.freeze()
    server = serve(cloud, reactor)

    async def measure() -> None:
        try:
            measures = await probe(cloud, server, vms)
            sys.stdout.write(json.dumps({**measures, "built s": built_s}))
        finally:
            reactor.stop()

    reactor.callWhenRunning(lambda: ensureDeferred(measure()))
    reactor.run()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))

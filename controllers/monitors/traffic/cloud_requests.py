"""The requests of services in the embedded cloud, whose guests run no proxies.

The cloud itself reports what each service measures (`embedded.guest.service`).
"""

import asyncio
import math
import xmlrpc.client
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from controllers.controller import Hand
from controllers.measurements import ANSWERING
from merkatd.protocol.bus_messages import Latest, LatestRequest
from merkatd.protocol.measurement_names import ARRIVALS, RESPONSE, THROUGHPUT

P95: Final = "response_p95_s"


class RequestsThroughCloud:
    """The measurements of a cluster's services in the embedded cloud."""

    def __init__(self, home: Path, hand: Hand, cluster: str) -> None:
        """Connect to the cloud, whose address and key are in the state directory `home`."""
        self._session = (home / "one_auth").read_text().strip()
        self._proxy = xmlrpc.client.ServerProxy((home / "one_xmlrpc").read_text().strip())
        self._hand = hand
        self._cluster = cluster

    async def look(self) -> tuple[float, Mapping[str, float]] | None:
        """Return the time and the measurements of all services; None while none runs."""
        latest = await self._hand.ask(LatestRequest())
        if not isinstance(latest, Latest) or latest.standing is None:
            return None
        vms = [
            vm.vm
            for vm in latest.standing.vms
            if vm.cluster == self._cluster and vm.state == "running" and not vm.leaving
        ]
        values = together(await asyncio.to_thread(self._reports, vms))
        return (latest.standing.at_s, values) if values else None

    def close(self) -> None:
        """Close the connection."""
        self._proxy("close")()

    def _reports(self, vms: Sequence[int]) -> list[Mapping[str, Any]]:
        answers: list[Any] = [self._proxy.embedded.guest.service(self._session, vm) for vm in vms]
        return [answer[1] for answer in answers if answer[0] and answer[1]["running"]]


def together(reports: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the measurements of a cluster from those of its services; {} without any.

    Rates add up, the response time is the mean of all answers, and the percentile that of the
    slowest service.
    """
    if not reports:
        return {}
    values = {
        ARRIVALS: math.fsum(report["arrivals_per_s"] for report in reports),
        THROUGHPUT: math.fsum(report["throughput_per_s"] for report in reports),
        ANSWERING: float(len(reports)),
    }
    if values[THROUGHPUT] > 0:
        waited = math.fsum(each["response_s"] * each["throughput_per_s"] for each in reports)
        values[RESPONSE] = waited / values[THROUGHPUT]
        values[P95] = max(float(report["p95_s"]) for report in reports)
    return {name: value for name, value in values.items() if math.isfinite(value)}

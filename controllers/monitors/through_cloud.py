"""Guests of the embedded cloud, which have no sshd: the cloud tells what their logs would say."""

import asyncio
import xmlrpc.client
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from controllers.controller import Hand
from controllers.monitors.counting import Count, of_guest
from controllers.monitors.looking import Seen
from merkatd.bus.messages import Latest, Look


class ThroughCloud:
    """Implements `Way`."""

    def __init__(self, home: Path, hand: Hand, cluster: str) -> None:
        """`home` is the daemon's state directory, where its cloud's address and key are."""
        self._session = (home / "one_auth").read_text().strip()
        self._proxy = xmlrpc.client.ServerProxy((home / "one_xmlrpc").read_text().strip())
        self._hand = hand
        self._cluster = cluster

    async def look(self) -> Seen:
        """What each VM's guest has done."""
        latest = await self._hand.ask(Look())
        if not isinstance(latest, Latest) or latest.standing is None:
            return Seen(at_s=0.0)
        vms = [
            one.vm
            for one in latest.standing.vms
            if one.cluster == self._cluster and one.state == "running" and not one.leaving
        ]
        counts = await asyncio.to_thread(self._counts, vms)
        return Seen(at_s=latest.standing.at_s, counts=counts)

    def close(self) -> None:
        """Hang up."""
        self._proxy("close")()

    def _counts(self, vms: Sequence[int]) -> dict[int, Count]:
        found = {}
        for vm in vms:
            answer: Any = self._proxy.embedded.guest.progress(self._session, vm)
            if answer[0]:
                found[vm] = of_guest(answer[1])
        return found


def has_cloud(home: Path) -> bool:
    """Whether the daemon has an embedded cloud."""
    return (home / "one_xmlrpc").exists()

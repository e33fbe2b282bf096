"""Tenants that create VMs, change their minds about them, and end them, as a generator says."""

import http.client
import xmlrpc.client
from collections.abc import Callable
from typing import Any, Protocol
from xml.parsers.expat import ExpatError

import numpy as np

LOST = (OSError, http.client.HTTPException, xmlrpc.client.Error, ExpatError)
"""What a caller meets when a server is gone or talks nonsense."""

SESSIONS = ("ann:secret", "bob:secret")
FIRST_USER = 2
"""Ann's id, after oneadmin's and serveradmin's."""

MOST_VMS = 8
"""So many are alive at once at most: all of them together fit the hosts."""

_OPENNEBULA_WORDS = ("suspend", "resume", "resume", "poweroff", "stop", "terminate")


class Ask(Protocol):
    """A call to the cloud."""

    def __call__(self, method: str, *arguments: Any, session: str) -> Any:
        """The whole answer."""


class Tenants:
    """Two users with a few VMs each. What they want may fail: then they want something else."""

    def __init__(self, ask: Ask, rng: np.random.Generator) -> None:
        self._ask = ask
        self._rng = rng
        self._vms: list[tuple[int, str]] = []
        """Those that are not ended, with the login of their owners."""

    def act(self) -> None:
        """One of them does something, or nothing."""
        wishes: tuple[Callable[[], None], ...] = (self._nothing, self.create, self.bid, self._act)
        wish = wishes[self._rng.choice(len(wishes), p=[0.5, 0.2, 0.15, 0.15])]
        try:
            wish()
        except LOST:
            return

    def create(self) -> None:
        """One more VM, unless there are many."""
        if len(self._vms) >= MOST_VMS:
            return
        session = SESSIONS[self._rng.integers(len(SESSIONS))]
        vcpus = int(self._rng.integers(1, 3))
        text = f'CPU="{vcpus / 4}"\nVCPU="{vcpus}"\nMEMORY="{self._rng.integers(2, 9) * 128}"\n'
        text += f'EMBEDDED=[WORK="{self._rng.integers(60, 600)}", DEMAND="1.0"]\n'
        answer = self._ask("one.vm.allocate", text + self._bid(), session=session)
        if answer[0] is True:
            self._vms.append((answer[1], session))

    def bid(self) -> None:
        """A new bid for one of the VMs."""
        if self._vms:
            vm, session = self._vms[self._rng.integers(len(self._vms))]
            self._ask("one.vm.update", vm, self._bid(), 1, session=session)

    def resume(self) -> None:
        """Whatever they put to rest shall run again."""
        for vm, session in self._vms:
            self._ask("one.vm.action", "resume", vm, session=session)

    def _act(self) -> None:
        if not self._vms:
            return
        row = int(self._rng.integers(len(self._vms)))
        word = _OPENNEBULA_WORDS[self._rng.integers(len(_OPENNEBULA_WORDS))]
        vm, session = self._vms[row]
        answer = self._ask("one.vm.action", word, vm, session=session)
        if word == "terminate" and answer[0] is True:
            del self._vms[row]

    def _bid(self) -> str:
        cpu, memory = 10 ** self._rng.uniform(-1, 1, 2)
        return f'MERKAT_BID_CPU="{cpu:.3f}"\nMERKAT_BID_MEMORY="{memory:.3f}"\n'

    def _nothing(self) -> None:
        """Most of the time."""

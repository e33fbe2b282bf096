"""Tenants that create, change and end VMs at random."""

import http.client
import xmlrpc.client
from collections.abc import Callable
from typing import Any, Protocol
from xml.parsers.expat import ExpatError

import numpy as np

LOST = (OSError, http.client.HTTPException, xmlrpc.client.Error, ExpatError)
"""Exceptions of a call to a dead or faulty server."""

SESSIONS = ("ann:secret", "bob:secret")
FIRST_USER = 2
"""Ann's id, after oneadmin's and serveradmin's."""

MOST_VMS = 8
"""The limit of VMs at once: all of them together fit the hosts."""

_OPENNEBULA_WORDS = ("suspend", "resume", "resume", "poweroff", "stop", "terminate")


class Ask(Protocol):
    """A call to the cloud."""

    def __call__(self, method: str, *arguments: Any, session: str) -> Any:
        """Return the whole answer."""


class Tenants:
    """Two users with a few VMs each; failed calls are ignored."""

    def __init__(self, ask: Ask, rng: np.random.Generator) -> None:
        self._ask = ask
        self._rng = rng
        self._vms: list[tuple[int, str]] = []
        """The VMs that were not ended, with their owners' logins."""

    def act(self) -> None:
        """Make one random change, or none."""
        wishes: tuple[Callable[[], None], ...] = (self._nothing, self.create, self.bid, self._act)
        wish = wishes[self._rng.choice(len(wishes), p=[0.5, 0.2, 0.15, 0.15])]
        try:
            wish()
        except LOST:
            return

    def create(self) -> None:
        """Create a VM, unless there are many."""
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
        """Change the bid of one of the VMs."""
        if self._vms:
            vm, session = self._vms[self._rng.integers(len(self._vms))]
            self._ask("one.vm.update", vm, self._bid(), 1, session=session)

    def resume(self) -> None:
        """Resume all VMs that the tenants put to rest."""
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
        """Do nothing, as in half of all turns."""

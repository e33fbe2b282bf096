"""Injected faults: their kind, target and frequency, drawn from a given generator."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from merkatd.embedded.model.records import Vm
    from merkatd.embedded.model.vm_states import Lcm


class FaultKind(Enum):
    """The kinds of faults of calls and operations."""

    REFUSE = "refuse"
    """The call fails without any effect."""
    DELAY = "delay"
    """The call takes effect; its reply comes later."""
    LOSE = "lose"
    """The call takes effect; its reply is lost with the connection."""
    GARBAGE = "garbage"
    """The call takes effect; its reply is not XML."""
    TRUNCATE = "truncate"
    """The call takes effect; the text in its reply is cut off inside valid XML-RPC."""
    HANG = "hang"
    """The call has no effect and no reply."""
    FAIL = "fail"
    """A step of an operation fails."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A kind of fault and its targets; a default matches everything."""

    kind: FaultKind
    method: str = "one.*"
    """A pattern of method names."""
    vm: int = -1
    host: int = -1
    lcm: str = "*"
    """A pattern of life-cycle states, for failing steps."""
    probability: float = 1.0
    count: int = -1
    """The number of times it strikes before it is removed; -1 means always."""
    code: int = 8192
    text: str = "Injected fault"
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class FaultVerdict:
    """The faults that apply to one call."""

    refusal: Fault | None = None
    delay_s: float = 0.0
    fate: FaultKind | None = None
    """The fault of its reply; None for a normal reply."""


_FATES = (FaultKind.HANG, FaultKind.LOSE, FaultKind.GARBAGE, FaultKind.TRUNCATE)


class Faults:
    """The active faults by number."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._faults: dict[int, Fault] = {}
        self._left: dict[int, int] = {}
        self._next = 0

    def add(self, fault: Fault) -> int:
        """Add a fault and return its number."""
        number = self._next
        self._next += 1
        self._faults[number] = fault
        self._left[number] = fault.count
        return number

    def remove(self, number: int) -> bool:
        """Remove a fault; return whether it was active."""
        self._left.pop(number, None)
        return self._faults.pop(number, None) is not None

    def clear(self) -> None:
        """Remove all faults."""
        self._faults.clear()
        self._left.clear()

    def in_force(self) -> Mapping[int, Fault]:
        """Return the faults that may still strike."""
        return dict(self._faults)

    def on_call(self, method: str, arguments: Sequence[object]) -> FaultVerdict:
        """Return the faults that apply to a call, and count them."""
        refusal, delay_s, fate = None, 0.0, None
        if not self._faults:
            return FaultVerdict()
        vm, host = _objects(method, arguments)
        for number, fault in list(self._faults.items()):
            wanted = fault.kind is not FaultKind.FAIL and fnmatchcase(method, fault.method)
            if not wanted or not self._strikes(number, fault, vm, host):
                continue
            if fault.kind is FaultKind.REFUSE:
                refusal = fault
            elif fault.kind is FaultKind.DELAY:
                delay_s += fault.seconds
            elif fate is None or _FATES.index(fault.kind) < _FATES.index(fate):
                fate = fault.kind
        return FaultVerdict(refusal, delay_s, fate)

    def on_step(self, vm: Vm, lcm: Lcm) -> bool:
        """Return whether a step of a VM fails."""
        host = vm.history[-1].host if vm.history else -1
        for number, fault in list(self._faults.items()):
            wanted = fault.kind is FaultKind.FAIL and fnmatchcase(lcm.name, fault.lcm)
            if wanted and self._strikes(number, fault, vm.id, host):
                return True
        return False

    def _strikes(self, number: int, fault: Fault, vm: int, host: int) -> bool:
        if fault.vm not in {-1, vm} or fault.host not in {-1, host}:
            return False
        if fault.probability < 1 and self._rng.random() >= fault.probability:
            return False
        if self._left[number] > 0:
            self._left[number] -= 1
            if self._left[number] == 0:
                self.remove(number)
        return True


def _objects(method: str, arguments: Sequence[object]) -> tuple[int, int]:
    """Return the VM and the host in a call's arguments, -1 for none."""
    numbers = [item if type(item) is int else -1 for item in arguments[:2]] + [-1, -1]
    if method == "one.vm.action":
        return numbers[1], -1
    if method.startswith("one.vm."):
        moves = method in {"one.vm.deploy", "one.vm.migrate"}
        return numbers[0], numbers[1] if moves else -1
    return (-1, numbers[0]) if method.startswith("one.host.") else (-1, -1)

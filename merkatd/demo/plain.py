"""The plain log: one line a period and one a decision, for pipes, files and slow terminals."""

from collections.abc import Sequence
from typing import TextIO

from merkatd.demo.state import Decided, State


class Log:
    """Writes lines as things happen."""

    def __init__(self, output: TextIO) -> None:
        self._output = output
        self._period = 0
        self._seen = 0

    def begin(self, command: str) -> None:
        """Say how to ask it things."""
        self._say(f"in a second terminal: {command}")

    def show(self, state: State, decisions: Sequence[Decided]) -> None:
        """Write what is new; `decisions` are all there ever were."""
        if state.period != self._period:
            self._period = state.period
            self._say(period_line(state))
        for one in decisions[self._seen :]:
            self._say(decision_line(one))
        self._seen = len(decisions)

    def _say(self, line: str) -> None:
        self._output.write(f"{line}\n")
        self._output.flush()


def period_line(state: State) -> str:
    """A period in one line."""
    cpu = state.cpu_prices[-1] if state.cpu_prices else 0.0
    memory = state.memory_prices[-1] if state.memory_prices else 0.0
    who = " ".join(f"{tenant.name} {tenant.done:.0%}" for tenant in state.tenants if tenant.vms)
    return (
        f"period {state.period}: {state.running} VMs, {state.pending} pending;"
        f" a core costs {cpu:.3f}, a GiB {memory:.3f}; done: {who or 'nothing'}"
    )


def decision_line(one: Decided) -> str:
    """A decision in one line."""
    return f"    {one.what}{f': {one.why}' if one.why else ''}"

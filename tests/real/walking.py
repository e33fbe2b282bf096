"""Commands of the pages, run on a system that systemd runs: as they stand, in a page's order."""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tests.docs.walks import left_out, standing
from tests.docs.walks import walk as section
from tests.real.pid_one import PidOne

Hooks = Mapping[str, Callable[[], object]]
NONE: Mapping[str, Any] = MappingProxyType({})
_NAME = re.compile(r"\b[A-Z]{2,}\b(?!/\*)")
_TERMINAL = "script -qefc {} /dev/null"
_MOST_S = "60"


class Walker:
    """Somebody at a terminal who reads a page and types what it says."""

    def __init__(
        self,
        system: PidOne,
        names: Mapping[str, str],
        *,
        place: str = "/root",
        environment: Sequence[str] = (),
    ) -> None:
        """`names` stand for what a page has in capitals; `place` is the folder that they are in."""
        self.system = system
        self.names = dict(names)
        self._environment = ("env", "-i", "HOME=/root", "TERM=linux", *environment)
        self._place = place

    def walk(
        self,
        page: str,
        heading: str,
        *,
        before: Hooks = NONE,
        then: Hooks = NONE,
        typed: Mapping[str, str] = NONE,
        instead: Hooks = NONE,
        user: str = "root",
    ) -> dict[str, str]:
        """What each command of a section says; each must succeed.

        `before` and `then` is what happens around a command, `typed` what it is told on its
        terminal, and `instead` does it in the page's stead. The `user` types what is Merkat's.
        """
        told: dict[str, str] = {}
        for command in section(page, heading):
            before.get(command, _nothing)()
            if command in instead:
                instead[command]()
            else:
                told[command] = self.type(command, typed.get(command), user=user)
            then.get(command, _nothing)()
        return told

    def command(self, page: str, text: str, *, typed: str | None = None) -> str:
        """What one command of a page says."""
        return self.type(standing(page, text), typed)

    def left(self, page: str, heading: str) -> tuple[str, ...]:
        """The commands of a section that are for programs which are not here, filled in."""
        return tuple(self.filled(one) for one in left_out(page, heading))

    def type(self, command: str, typed: str | None = None, *, user: str = "root") -> str:
        """What a command says; on a terminal, where something is typed."""
        words = self.words(command, on_terminal=typed is not None, user=user)
        return self.system.ok(*words, typed=typed or "")

    def press(self, command: str, key: str, *, user: str) -> str:
        """What a command shows until a key ends it, pressed until it listens."""
        *before, line = self.words(command, on_terminal=True, user=user)
        pressing = f"while sleep 0.3; do printf {key}; done"
        return self.system.ok("timeout", _MOST_S, *before, f"({pressing}) | ({line})")

    def words(self, command: str, *, on_terminal: bool = False, user: str = "root") -> list[str]:
        """As a shell is told."""
        said = self.filled(command)
        if user != "root" and said.startswith("merkatd "):
            said = f"sudo -u {user} {said}"
        if on_terminal:
            said = _TERMINAL.format(shlex.quote(said))
        return [*self._environment, "bash", "-c", f"cd {self._place} && {said}"]

    def filled(self, command: str) -> str:
        """With a reader's own names."""
        return _NAME.sub(lambda name: self.names.get(name[0], name[0]), command)


def _nothing() -> None:
    """What happens around most commands."""

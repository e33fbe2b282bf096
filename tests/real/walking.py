"""Commands of the pages, run under systemd as they are written, in the page's order."""

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
    """A reader at a terminal who types the commands of a page."""

    def __init__(
        self,
        system: PidOne,
        names: Mapping[str, str],
        *,
        place: str = "/root",
        environment: Sequence[str] = (),
    ) -> None:
        """`names` replace the words in capitals on a page; `place` is the working folder."""
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
        """Run each command of a section, which must succeed; return the outputs.

        `before` and `then` are functions to call around a command, `typed` is its input on a
        terminal, and `instead` are functions to call instead of a command. The `user` runs Merkat's
        own commands.
        """
        outputs: dict[str, str] = {}
        for command in section(page, heading):
            before.get(command, _nothing)()
            if command in instead:
                instead[command]()
            else:
                outputs[command] = self.type(command, typed.get(command), user=user)
            then.get(command, _nothing)()
        return outputs

    def command(self, page: str, text: str, *, typed: str | None = None) -> str:
        """Return the output of one command of a page."""
        return self.type(standing(page, text), typed)

    def left(self, page: str, heading: str) -> tuple[str, ...]:
        """Return the commands of a section whose programs are missing, with names filled in."""
        return tuple(self.filled(command) for command in left_out(page, heading))

    def type(self, command: str, typed: str | None = None, *, user: str = "root") -> str:
        """Return the output of a command; with input, run it on a terminal."""
        words = self.words(command, on_terminal=typed is not None, user=user)
        return self.system.ok(*words, typed=typed or "")

    def press(self, command: str, key: str, *, user: str) -> str:
        """Return what a command shows until a key ends it; press the key until it listens."""
        *before, line = self.words(command, on_terminal=True, user=user)
        pressing = f"while sleep 0.3; do printf {key}; done"
        return self.system.ok("timeout", _MOST_S, *before, f"({pressing}) | ({line})")

    def words(self, command: str, *, on_terminal: bool = False, user: str = "root") -> list[str]:
        """Return the words with which a shell runs the command."""
        typed = self.filled(command)
        if user != "root" and typed.startswith("merkatd "):
            typed = f"sudo -u {user} {typed}"
        if on_terminal:
            typed = _TERMINAL.format(shlex.quote(typed))
        return [*self._environment, "bash", "-c", f"cd {self._place} && {typed}"]

    def filled(self, command: str) -> str:
        """Return the command with the reader's own names."""
        return _NAME.sub(lambda name: self.names.get(name[0], name[0]), command)


def _nothing() -> None:
    """Do nothing before or after a command."""

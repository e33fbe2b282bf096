"""The programs that started the demo, which ends when one of them has ended."""

import os
import signal
from pathlib import Path


class Family:
    """The ancestors of this process in its session, such as a shell and `make`.

    # Note [A killed parent]

    A terminal that closes sends SIGHUP. A parent that is killed sends nothing: the demo would
    continue to draw on a terminal that a shell uses again. So the demo ends itself when one of its
    ancestors has ended. With `nohup` or `setsid` the demo outlives them: it then watches none.
    Example: `make demo` starts a shell, which starts the demo. After `kill -9` of make, the shell
    still waits for the demo; the shell's new parent is process 1.
    """

    def __init__(self) -> None:
        self._members: list[tuple[int, int]] = []
        """Each process with its parent, beginning with this one."""
        if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
            return
        session, process = os.getsid(0), os.getpid()
        while (parent := _parent(process)) and parent > 1 and _session(parent) == session:
            self._members.append((process, parent))
            process = parent

    def has_lost_a_member(self) -> bool:
        """Return whether an ancestor has ended."""
        return any(_parent(process) != parent for process, parent in self._members)


def _session(process: int) -> int | None:
    try:
        return os.getsid(process)
    except OSError:
        return None


def _parent(process: int) -> int | None:
    """Return the parent of a process, None if that is unknown."""
    if process == os.getpid():
        return os.getppid()
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return None
    # The program's name, in parentheses, can contain anything.
    return int(status.rpartition(")")[2].split()[1])

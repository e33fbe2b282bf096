"""The process tree: descendants of a process."""

import os
import subprocess
import sys

from merkatd.platforms.processes import program
from tests.platforms.processes.nursery import SLEEPS

PARENT = (
    "import subprocess, sys\n"
    "child = subprocess.Popen([sys.executable, '-S', '-c', sys.argv[1]])\n"
    "print(child.pid, flush=True)\n"
    "child.wait()\n"
)


def test_descendants_are_exactly_children_and_their_children() -> None:
    """A warden ends all of them, so a foreign process among them would be killed."""
    arguments = [sys.executable, "-S", "-c", PARENT, SLEEPS]
    with (
        subprocess.Popen([sys.executable, "-S", "-c", SLEEPS]) as stranger,
        subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as parent,
    ):
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        try:
            assert program.descendants_of(parent.pid) == {child}
            assert program.descendants_of(child) == frozenset()
            assert {parent.pid, child, stranger.pid} <= program.descendants_of(os.getpid())
            assert os.getpid() not in program.descendants_of(os.getpid())
        finally:
            program.kill(frozenset({child, parent.pid, stranger.pid}))

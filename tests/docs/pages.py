"""The pages of the repository, and every command that stands in them."""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_OF_OTHER_DAYS = "CHANGELOG.md"
"""It tells of commands as they were."""
PAGES = tuple(
    page
    for page in (*sorted(ROOT.glob("docs/*.md")), *sorted(ROOT.glob("*.md")))
    if page.name != _OF_OTHER_DAYS
)

SHELL = ("", "sh", "console", "text")
"""Fences that may hold commands; the others hold files and programs."""

FOREIGN: Mapping[str, str] = {
    "chown": "changes a server's files",
    "chmod": "changes a server's files",
    "cp": "copies a server's state",
    "curl": "asks a port, which tests/api/metrics does",
    "docker": "needs Docker, which tests/real has",
    "docker-compose": "needs Docker, which tests/real has",
    "echo": "writes a file",
    "install": "changes a server's files",
    "journalctl": "shows a server's log",
    "ln": "changes a server's files",
    "mysqldump": "needs a server with that database",
    "oneacl": "needs a real OpenNebula",
    "onecluster": "needs a real OpenNebula",
    "oneuser": "needs a real OpenNebula",
    "onevm": "needs a real OpenNebula",
    "apt": "installs packages on a server",
    "apt-get": "installs packages on a server",
    "dpkg": "installs packages on a server",
    "pip": "installs packages on a server",
    "promtool": "comes with Prometheus, which tests/real has",
    "python3": "makes a virtual environment on a server",
    "systemctl": "needs systemd, which tests/real has",
    "systemd-sysusers": "needs systemd, which tests/systemd has",
    "systemd-tmpfiles": "needs systemd, which tests/systemd has",
    "useradd": "changes a server's users",
}
"""Programs that are not ours, each with the reason why it is not run here."""

STANDS_FOR: Mapping[str, str] = {
    "APPLICATION": "1",
    "COMMAND": "plan",
    "HOST": "host000",
    "ID": "1",
    "N": "1",
    "PERIOD": "1",
    "TENANT": "0",
    "VM": "web-0",
}
"""What is written in capitals where a reader writes one of their own."""

OURS = ("make", "merkatd", "merkat-onegroup", "onegroup", "python")

_BEFORE = re.compile(
    r"^(?:\$ )?(?:sudo (?:-u \w+ )?)?(?:[A-Z_]+=\S+ )*(?:(?:\S*/)?\.venv/bin/|/opt/merkat/bin/)?"
)
_BEHIND = re.compile(r"\s+#.*$|\s+&$|\s+>\s.*$|\s+\|\s.*$|\)$|\s*\\$")
_ASSIGNED = re.compile(r"^[A-Z_]+=\$\((.*)\)$")


@dataclass(frozen=True, slots=True)
class Block:
    """Lines that are set apart."""

    page: Path
    lines: tuple[str, ...]

    @property
    def commands(self) -> tuple[str, ...]:
        """Its lines that are commands, without what stands before and behind them."""
        said = (_command(line) for line in self.lines)
        return tuple(line for line in said if line and program(line) in {*OURS, *FOREIGN})


def program(command: str) -> str:
    """The first word."""
    return command.split(maxsplit=1)[0]


def _command(line: str) -> str:
    assigned = _ASSIGNED.match(line.strip())
    found = _BEFORE.sub("", assigned[1] if assigned else line.strip())
    while (shorter := _BEHIND.sub("", found)) != found:
        found = shorter
    return found


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of a page that may hold commands: fences for a shell, and indented lines."""
    fence: str | None = None
    lines: list[str] = []
    for line in [*page.read_text(encoding="utf-8").splitlines(), "The end"]:
        marked = re.match(r"```([\w+-]*)", line)
        inside = fence is None and not marked and line.startswith("    ")
        if fence is None and lines and not line:
            lines.append(line)
            continue
        if inside and (lines or line.strip()):
            lines.append(line[4:])
            continue
        if fence is not None and not marked:
            lines.append(line)
            continue
        if lines and (fence is None or fence in SHELL):
            yield Block(page, tuple(lines))
        lines = []
        if marked:
            fence = marked[1] if fence is None else None


def inline(page: Path) -> list[str]:
    """Commands of ours in the middle of a sentence or a table."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    found = re.findall(r"`((?:merkatd|onegroup|merkat-onegroup) [a-z][^`]*)`", text)
    return [re.sub(r"\s+", " ", _command(one.replace("\\|", "|"))) for one in found]


def words(command: str) -> list[str]:
    """The words behind the program, without what a synopsis leaves to choose."""
    command = re.sub(r"\$\([^)]*\)", "X", command)  # what another command would say
    said = shlex.split(re.sub(r"\s*\[[^\]]*\]", "", command))[1:]
    return [STANDS_FOR.get(word, word) for word in said]

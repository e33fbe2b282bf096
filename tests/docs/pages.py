"""The pages of the repository, and every command in them."""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_OF_OTHER_DAYS = "CHANGELOG.md"
"""It quotes commands of earlier versions."""
PAGES = tuple(
    page
    for page in (
        *sorted(ROOT.glob("docs/*.md")),
        *sorted(ROOT.glob("docs/experiments/*.md")),
        *sorted(ROOT.glob("*.md")),
    )
    if page.name != _OF_OTHER_DAYS
)

SHELL = ("", "sh", "console", "text")
"""Fences that may contain commands; the others contain files and programs."""

FOREIGN = (
    *("apt", "apt-get", "chgrp", "chmod", "chown", "cp", "curl", "docker", "docker-compose"),
    *("dpkg", "echo", "install", "journalctl", "ln", "mariadb", "mariadb-dump", "mysql"),
    *("mysqldump", "oneacl", "onecluster", "onehost", "oneuser", "onevm", "pip", "promtool"),
    *("python3", "rm", "systemctl", "systemd-sysusers", "systemd-tmpfiles", "testbed/base-image"),
    *("useradd", "virsh"),
)
"""Programs that are not Merkat's; `walks` lists the test that runs them."""

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
"""Words in capitals that stand for a reader's own value."""

NO_COMMANDS: Mapping[str, tuple[str, ...]] = {
    "CONTRIBUTING.md": ("LISTEN_ADDRESS", "NETWORK = ["),
    "controllers.md": (),
    "design.md": ("cli      ", "Snapshot (columns", "┌───", "One good, 100 units"),
    "embedded.md": ("EMBEDDED = [",),
    "experiments.md": ("first fit ", "Means of 3 seeds", "189 crashed"),
    "install.md": ("SCHED_MAD = [",),
    "merkat.md": ("CPU = ",),
    "platforms.md": ("CONTEXT = [", "log_format merkat"),
    "requirements.md": ("[market.default]",),
    "tenant.md": ("MERKAT_BID_CPU",),
    "tour.md": ("Seven tenants bid",),
}
"""By page: the first words of blocks that are a screen, a drawing or a file."""

OURS = ("make", "merkat", "merkatd", "merkat-onegroup", "onegroup", "python")

_BEFORE = re.compile(
    r"^(?:\$ )?(?:sudo (?:-u \w+ )?)?(?:[A-Z_]+=(?:\"[^\"]*\"|\S+) )*"
    r"(?:(?:\S*/)?\.venv/bin/|/opt/merkat/bin/)?"
)
_BEHIND = re.compile(r"\s+#.*$|\s+&$|\s+>\s.*$|\s+\|\s.*$|\)$|\s*\\$")
_ASSIGNED = re.compile(r"^[A-Z_]+=\$\((.*)\)$")


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive lines of a block."""

    page: Path
    lines: tuple[str, ...]

    @property
    def commands(self) -> tuple[str, ...]:
        """Return the lines that are commands, without prompts and comments."""
        bare_lines = (bare(line) for line in self.lines)
        return tuple(line for line in bare_lines if line and program(line) in {*OURS, *FOREIGN})


def no_commands(block: Block) -> bool:
    """Return whether this block is known to have no commands."""
    first = next(line.strip() for line in block.lines if line.strip())
    return any(first.startswith(start) for start in NO_COMMANDS.get(block.page.name, ()))


def program(command: str) -> str:
    """Return the first word."""
    return command.split(maxsplit=1)[0]


def bare(line: str) -> str:
    """Return a line's command without prompt and comment."""
    assigned = _ASSIGNED.match(line.strip())
    text = _BEFORE.sub("", assigned[1] if assigned else line.strip())
    while (shorter := _BEHIND.sub("", text)) != text:
        text = shorter
    return text


def blocks(page: Path) -> Iterator[Block]:
    """Yield the blocks that may have commands: fences for a shell, and indented lines."""
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
    """Return Merkat's commands inside of sentences or tables."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    cells = re.findall(r"`((?:merkatd|merkat|onegroup|merkat-onegroup) [a-z][^`]*)`", text)
    return [re.sub(r"\s+", " ", bare(cell.replace("\\|", "|"))) for cell in cells]


def words(command: str) -> list[str]:
    """Return the arguments, without the optional parts of a synopsis."""
    command = re.sub(r"\$\([^)]*\)", "X", command)  # the output of another command
    parts = shlex.split(re.sub(r"\s*\[[^\]]*\]", "", command))[1:]
    return [_value(word) for word in parts]


def _value(word: str) -> str:
    """Return a reader's own value for a word, or for its part before `=`."""
    name, equal, rest = word.partition("=")
    return f"{STANDS_FOR.get(name, name)}{equal}{rest}"

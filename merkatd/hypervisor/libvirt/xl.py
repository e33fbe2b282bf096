"""Pins on a Xen host, through the command `xl` there: libvirt can neither set nor read them."""

import re
import shlex
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence

from merkatd.hypervisor.libvirt.errors import RefusedError
from merkatd.hypervisor.libvirt.host import Host
from merkatd.limits import Cores

_PATIENCE = 0.8
"""The part of a call's limit that the command may take: it ends before its thread is given up."""
_EVERYWHERE = "all"
_MOST_CORES = 4095
"""The highest core number that is believed."""
_LONGEST = 4 * 1024 * 1024
"""The most bytes of an answer."""
_LINE = re.compile(
    r"(?P<domain>\S+)\s+(?P<id>\d+)\s+(?P<vcpu>\d+)\s+(?P<cpu>\S+)\s+(?P<state>\S+)"
    r"\s+(?P<time>[\d.]+)\s+(?P<hard>all|any cpu|[\d,-]+)(\s*/.*)?",
    re.ASCII,
)
"""Of `xl vcpu-list`; what is behind a slash are wishes of Xen's scheduler, which we don't set."""


def pin(host: Host, domain: str, vcpu: int, cores: Sequence[int]) -> None:
    """Let a virtual CPU use these cores, all where there are none. Raises RefusedError."""
    named = ",".join(map(str, cores)) or _EVERYWHERE
    _run(host, "vcpu-pin", domain, str(vcpu), named)


def pins(host: Host) -> Mapping[str, Cores]:
    """By domain, the cores of each virtual CPU, none where it may use all.

    Raises RefusedError.
    """
    found: dict[str, dict[int, tuple[int, ...]]] = {}
    for line in _run(host, "vcpu-list").splitlines():
        read = _LINE.fullmatch(line.strip())
        if read is not None:
            found.setdefault(read["domain"], {})[int(read["vcpu"])] = _cores(read["hard"])
    return {domain: tuple(cores[vcpu] for vcpu in sorted(cores)) for domain, cores in found.items()}


def _cores(text: str) -> tuple[int, ...]:
    found: set[int] = set()
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", text):
        if max(len(first), len(last)) > len(str(_MOST_CORES)) or int(last or first) > _MOST_CORES:
            raise RefusedError(f"xl names core {(last or first)[:20]}: no host has so many")
        found |= set(range(int(first), int(last or first) + 1))
    return tuple(sorted(found))


def _run(host: Host, *words: str) -> str:
    command = [word.format(host=host.place.name) for word in shlex.split(host.settings.xen_command)]
    whole = [*command, *words]
    limit_s = host.settings.call_limit_s * _PATIENCE
    try:
        said, code = _output(whole, limit_s)
    except OSError as error:
        raise RefusedError(f"{whole[0]}: {error}") from error
    if len(said) > _LONGEST:
        raise RefusedError(f"{' '.join(whole)}: it says more than {_LONGEST} bytes")
    text = said.decode(errors="replace")
    if code == -signal.SIGKILL:
        raise RefusedError(f"{' '.join(whole)}: it did not end within {limit_s:g} s")
    if code:
        raise RefusedError(f"{' '.join(whole)}: {' '.join(text.split()) or f'exit code {code}'}")
    return text


def _output(whole: Sequence[str], limit_s: float) -> tuple[bytes, int]:
    """Return what a command says, errors included, and its exit code; no more is kept."""
    with subprocess.Popen(  # noqa: S603 - the administrator's own command, with numbers behind it
        whole, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        ending = threading.Timer(limit_s, process.kill)
        ending.start()
        try:
            said = b"" if process.stdout is None else process.stdout.read(_LONGEST + 1)
            if len(said) > _LONGEST:
                process.kill()
            return said, process.wait()
        finally:
            ending.cancel()

"""`merkatd demo --hypervisor libvirt` on a machine with libvirtd: real guests, gone afterwards."""

import os
import subprocess
import sys
from pathlib import Path

from tests.docs.walks import standing
from tests.real.host import ROOT, RealHost, until

SECONDS = 24
PATIENCE_S = 120.0
"""For the start and the end of the demo."""


def test_real_guests_slow_down_and_speed_up(mortal_hosts: list[RealHost], tmp_path: Path) -> None:
    """The guests have OpenNebula's names, have limits during the demo, and are gone afterwards."""
    host = mortal_hosts[0]
    log = tmp_path / "demo.log"
    with (
        log.open("wb") as out,
        subprocess.Popen(
            host.words(
                *(sys.executable, "-W", "error", "-m", "merkatd.cli", "demo", "--plain"),
                *("--hypervisor", "libvirt", "--seconds", str(SECONDS)),
            ),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        ) as demo,
    ):
        seen: dict[str, set[int]] = {}
        until(
            lambda: _look(host, seen) or demo.poll() is not None,
            f"the demo ends: {log.read_text()}",
            patience_s=SECONDS + PATIENCE_S,
        )
        while demo.poll() is None:
            _look(host, seen)
        text = log.read_text()
        assert demo.wait() == 0, text
    sys.stdout.write(text)
    assert "Results of each tenant:" in text
    quotas = [quotas_of_vm - {-1} for quotas_of_vm in seen.values()]
    assert max(map(len, quotas), default=0) > 1, seen
    assert not host.connection().listAllDomains()


def test_the_readmes_first_command_plays_until_ctrl_c(tmp_path: Path) -> None:
    """It runs on a terminal until Ctrl-C, and make reports success."""
    log = tmp_path / "demo.log"
    command = standing("README.md", "make demo")
    with (
        log.open("wb") as out,
        subprocess.Popen(
            ["script", "-qefc", command, "/dev/null"],
            cwd=ROOT,
            env=os.environ | {"TERM": "linux"},
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=out,
        ) as demo,
    ):
        assert demo.stdin is not None
        until(lambda: b"HOSTS" in log.read_bytes(), "it plays", patience_s=PATIENCE_S)
        demo.stdin.write(b"\x03")
        demo.stdin.close()
        assert demo.wait(PATIENCE_S) == 0, log.read_text(errors="replace")


def _look(host: RealHost, seen: dict[str, set[int]]) -> bool:
    """Note the present limit of each guest; always return False."""
    for domain in host.connection().listAllDomains():
        try:
            quota = int(domain.schedulerParameters()["vcpu_quota"])
            seen.setdefault(domain.name(), set()).add(quota)
        except Exception:  # noqa: BLE001, S112 - it ended while it was looked at
            continue
    return False

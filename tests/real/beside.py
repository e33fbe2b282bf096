"""An embedded cloud that is a process of its own, as OpenNebula is: no daemon takes it along."""

import subprocess
import sys
import xmlrpc.client
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.controllers.monitors.sshd import free_port
from tests.real.host import ROOT, until

VMS = 3
PASSWORD = "secret"  # noqa: S105 - of a cloud that lives as long as a test
SESSION = f"oneadmin:{PASSWORD}"


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[tuple[int, Any]]:
    """An embedded cloud that is a process of its own, with VMs: its port, and a way to it."""
    port = free_port()
    words = ("embedded", "--listen", f"127.0.0.1:{port}", "--hosts", "2", "--password", PASSWORD)
    with (
        (tmp_path / "cloud.log").open("wb") as log,
        subprocess.Popen(
            [sys.executable, "-m", "merkatd.cli", *words], cwd=ROOT, stdout=log, stderr=log
        ) as process,
        xmlrpc.client.ServerProxy(f"http://127.0.0.1:{port}/RPC2", allow_none=True) as proxy,
    ):
        try:
            until(lambda: _answers(proxy), "the cloud answers")
            for number in range(VMS):
                text = f'NAME="vm{number}" CPU="4" VCPU="8" MEMORY="1024" MERKAT_BID_CPU="5"'
                assert proxy.one.vm.allocate(SESSION, text, False)[0] is True  # type: ignore[index]
            yield port, proxy
        finally:
            process.terminate()


def _answers(proxy: Any) -> bool:
    try:
        return bool(proxy.one.system.version(SESSION)[0])
    except OSError:
        return False


def quotas(proxy: Any) -> list[int]:
    """Of the VMs that are limited."""
    told = proxy.embedded.limits.read(SESSION, list(range(VMS)))
    assert told[0] is True, told
    found = [one["limits"]["vcpu_quota"] for one in told[1].values()]
    return [quota for quota in found if quota > 0]

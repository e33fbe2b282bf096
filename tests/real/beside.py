"""An embedded cloud in its own process, like OpenNebula: it outlives the daemon."""

import re
import subprocess
import sys
import xmlrpc.client
from collections.abc import Iterator
from typing import Any

import pytest

from tests.controllers.monitors.sshd import free_port
from tests.real.host import ROOT, until

VMS = 3
PASSWORD = "secret"  # noqa: S105 - of a cloud that lives as long as a test
SESSION = f"oneadmin:{PASSWORD}"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Any]]:
    """Return the port of an embedded cloud with VMs in its own process, and a proxy for calls."""
    tmp_path = tmp_path_factory.mktemp("cloud")
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
    """Return the quotas of all VMs that have one."""
    answer = proxy.embedded.limits.read(SESSION, list(range(VMS)))
    assert answer[0] is True, answer
    quotas_us = [vm["limits"]["vcpu_quota"] for vm in answer[1].values()]
    return [quota for quota in quotas_us if quota > 0]


def new(proxy: Any, name: str, host: int | None = None) -> int:
    """Create another small VM; with a host, place it there as another scheduler would."""
    answer = proxy.one.vm.allocate(SESSION, f'NAME="{name}" CPU="0.1" MEMORY="64"', False)
    assert answer[0] is True, answer
    vm: int = answer[1]
    if host is not None:
        assert proxy.one.vm.deploy(SESSION, vm, host)[0] is True
    return vm


def running(proxy: Any) -> int:
    """Return the number of VMs on a host."""
    answer = proxy.one.vmpool.info(SESSION, -2, -1, -1, -1)
    assert answer[0] is True, answer
    return len(re.findall(r"<STATE>3</STATE>", answer[1]))

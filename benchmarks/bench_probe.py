"""The time to probe 100 VMs over SSH with a pool of 20: at most 1.3 x 5 x the median batch.

The VMs are sshds of this machine, each with its own host key and address. A probe is a command over
an open connection, as in a monitor. A batch is 20 VMs at once.

python benchmarks/bench_probe.py
"""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.support.measurement import Figures
from controllers.monitors.ssh_pool import CommandResult, SshLimits, SshPool, SshTarget, key_of
from merkatd.protocol.guest_keys import GuestKeys
from tests.controllers.monitors.sshd import running, user

VMS, POOL, ROUNDS = 100, 20, 5
MOST = 1.3 * VMS / POOL
KEYS = GuestKeys(b"a secret of thirty-two bytes....")


def probed_s(pool: SshPool, places: Mapping[int, SshTarget]) -> float:
    """Return the time to probe these VMs. Raise TypeError if one does not answer."""
    began_s = time.perf_counter()
    heard = asyncio.run(pool.ask(places, lambda _: "cat /proc/loadavg"))
    took_s = time.perf_counter() - began_s
    for vm, outcome in heard.items():
        if not isinstance(outcome, CommandResult):
            raise TypeError(f"VM {vm}: {outcome}")
    return took_s


def main() -> int:
    """Print all figures; return 1 if a limit is missed."""
    figures = Figures()
    limits = SshLimits(pool=POOL, connect_s=60.0, command_s=60.0)
    with tempfile.TemporaryDirectory() as folder, running(Path(folder), KEYS, VMS) as sshds:
        places = {
            vm: SshTarget(
                address=daemon.address,
                port=daemon.port,
                user=user(),
                host_key=KEYS.host_key(f"key-{vm}"),
            )
            for vm, daemon in enumerate(sshds, start=1)
        }
        pool = SshPool(key_of(KEYS.ours), limits)
        try:
            figures.plain("probe: 100 VMs for the first time, seconds", probed_s(pool, places))
            batches, wholes = [], []
            numbers = sorted(places)
            # In turn, so that both run under the same load of the machine.
            for row in range(ROUNDS):
                first = row * POOL % VMS
                batch = {vm: places[vm] for vm in numbers[first : first + POOL]}
                batches.append(probed_s(pool, batch))
                wholes.append(probed_s(pool, places))
        finally:
            pool.close()
    figures.plain("probe: a batch of 20, seconds", statistics.median(batches))
    figures.at_most(
        "probe: 100 VMs with a pool of 20, times the median batch",
        statistics.median(wholes) / statistics.median(batches),
        MOST,
    )
    return figures.exit_code()


if __name__ == "__main__":
    sys.exit(main())

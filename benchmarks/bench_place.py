r"""CPU time of Merkat and mm_sched to place 500 VMs with bids on 100 hosts of a real OpenNebula.

MERKAT_ONE_ENDPOINT=http://127.0.0.1:2633/RPC2 MERKAT_ONE_AUTH=~/.one/one_auth \
MERKAT_ONE_SCHEDULER="mm_sched" python benchmarks/bench_place.py

It needs its own OpenNebula 6.10 with the dummy drivers, without hosts, users and VMs, and without a
running scheduler. MERKAT_ONE_SCHEDULER is the command that runs the built-in scheduler in the
foreground against the same server. Its sched.conf must let it place all VMs at once: MAX_VM = 5000,
MAX_DISPATCH = 1000, MAX_HOST = 100, SCHED_INTERVAL = 1. Without that command only Merkat is
measured. Each report of a host of the dummy drivers costs the server a process: set an interval of
minutes in monitord.conf, so that these do not disturb the measurement.

Fifty more VMs without bids wait, and 25 hosts already have a VM that Merkat must not touch
(MERKAT_MANAGED = NO) and that nearly fills them. Both schedulers run three times in turn on the
same hosts; medians are compared. Like the built-in scheduler, Merkat sends all steps in one period
here (`act_limit`), however long the server takes.

The time is the CPU time of the whole process with all its threads, from /proc/PID/stat: of merkatd
from when it is ready to start its first period, of the scheduler from its start; for both until two
seconds after the last VM has left PENDING.
"""

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import xmlrpc.client
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from lxml import etree

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.support.measurement import Figures

HOSTS, VMS = 100, 500
PLAIN, UNMANAGED = 50, 25
"""Numbers of waiting VMs without bids, and of running VMs that Merkat must not touch."""
RUNS = 3
FLOOR_PART = 0.25
"""The default of `floor_part`: the floor of a VM without its own, as a part of its memory."""
NAME = "place-"
LIMIT = 1.0
PATIENCE_S = 900.0
AFTER_S = 2.0
_PENDING, _NOT_DONE, _ALL = 1, -1, -2
_DELETE = 5
_MONITORED = "2"
_RUNNING = "3"
_KIB = 1024
_WORDS = ("CPU", "MEMORY")


class MeasuredServer:
    """The OpenNebula server, called as the administrator."""

    def __init__(self, endpoint: str, auth: str) -> None:
        self.endpoint = endpoint
        self.auth = auth
        self.session = auth if ":" in auth else Path(auth).expanduser().read_text().strip()
        self._proxy = xmlrpc.client.ServerProxy(endpoint)

    def call(self, method: str, *arguments: Any) -> Any:
        """Return the value of a call. Raise SystemExit if the server refuses it."""
        success, value, *_ = getattr(self._proxy, method)(self.session, *arguments)
        if not success:
            sys.exit(f"{method}: {value}")
        return value

    def pool(self, method: str, *arguments: Any) -> list[etree._Element]:
        """Return the elements of a pool."""
        return list(etree.fromstring(self.call(method, *arguments).encode()))

    def vms(self, state: int = _NOT_DONE) -> list[etree._Element]:
        """Return the VMs in a state."""
        return self.pool("one.vmpool.infoextended", _ALL, -1, -1, state)

    def hosts(self) -> list[etree._Element]:
        """Return all hosts."""
        return self.pool("one.hostpool.info")

    def refuse_to_harm(self) -> None:
        """Exit if the cloud has hosts that are not of this benchmark."""
        others = [row.findtext("NAME") for row in self.hosts()]
        if any(not str(name).startswith(NAME) for name in others):
            sys.exit(
                f"bench_place.py ends all VMs: use a cloud without other hosts (found {others})"
            )

    def end_all_vms(self) -> None:
        """End all VMs."""
        for row in self.vms():
            self.call("one.vm.recover", _id(row), _DELETE)

    def clean(self) -> None:
        """End all VMs and remove all hosts."""
        self.end_all_vms()
        for row in self.hosts():
            self.call("one.host.delete", _id(row))

    def add_hosts(self) -> None:
        """Add hosts, and wait until they are monitored."""
        for number in range(HOSTS):
            self.call("one.host.allocate", f"{NAME}{number:03d}", "dummy", "dummy", -1)
        _until(
            lambda: all(row.findtext("STATE") == _MONITORED for row in self.hosts()),
            "the hosts are monitored",
        )

    def fill(self) -> None:
        """Start VMs that Merkat must not touch on some hosts, and create the waiting VMs."""
        large = 'CPU="7"\nVCPU="7"\nMEMORY="14336"\nMERKAT_MANAGED="NO"\n'
        for host in [_id(row) for row in self.hosts()][:UNMANAGED]:
            self.call("one.vm.deploy", self.call("one.vm.allocate", large, False), host)
        _until(lambda: len(self.running()) == UNMANAGED, "VMs run on some hosts")
        for number in range(VMS + PLAIN):
            cores = 1 + number % 2
            size = f'CPU="{cores * 0.5}"\nVCPU="{cores}"\nMEMORY="{512 * cores}"\n'
            bids = (
                f'MERKAT_BID_CPU="{1 + number % 7}"\nMERKAT_BID_MEMORY="{0.5 + number % 3}"\n'
                f'MERKAT_MIN_MEMORY="{128 * cores}"\n'
            )
            plain = number % (VMS // PLAIN + 1) == 0
            self.call("one.vm.allocate", size if plain else size + bids, False)

    def running(self) -> list[etree._Element]:
        """Return the running VMs."""
        return [row for row in self.vms() if row.findtext("LCM_STATE") == _RUNNING]


def _id(row: etree._Element) -> int:
    return int(row.findtext("ID") or "")


def _until(met: Callable[[], bool], what: str) -> None:
    ending = time.monotonic() + PATIENCE_S
    while not met():
        if time.monotonic() > ending:
            sys.exit(f"{what}: not within {PATIENCE_S:g} s")
        time.sleep(0.2)


def cpu_s(pid: int) -> float:
    """Return the CPU time of a process with all its threads."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def overfull(server: MeasuredServer) -> int:
    """Return how many hosts lack room for all floors and the full size of unmanaged VMs."""
    floors: dict[int, list[float]] = {}
    for vm in server.vms():
        host = int(vm.findtext("HISTORY_RECORDS/HISTORY/HID") or "-1")
        cpu, memory_mib = (float(vm.findtext(f"TEMPLATE/{name}") or 0) for name in _WORDS)
        size = [cpu * 100, memory_mib]
        if vm.findtext("USER_TEMPLATE/MERKAT_MANAGED") != "NO":
            least = [float(vm.findtext(f"USER_TEMPLATE/MERKAT_MIN_{name}") or 0) for name in _WORDS]
            size = [least[0], max(least[1], memory_mib * FLOOR_PART)]
        held = floors.setdefault(host, [0.0, 0.0])
        held[0], held[1] = held[0] + size[0], held[1] + size[1]
    room = {
        _id(row): (
            float(row.findtext("HOST_SHARE/MAX_CPU") or 0),
            float(row.findtext("HOST_SHARE/MAX_MEM") or 0) / _KIB,
        )
        for row in server.hosts()
    }
    return sum(held[0] > room[host][0] or held[1] > room[host][1] for host, held in floors.items())


def measured(server: MeasuredServer, pid: int, already_s: float) -> float:
    """Return the CPU time of a process until shortly after all VMs are placed."""
    _until(lambda: not server.vms(_PENDING), "all VMs are placed")
    time.sleep(AFTER_S)
    return cpu_s(pid) - already_s


def merkat(server: MeasuredServer) -> float:
    """Measure the daemon, started paused and then resumed."""
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder)
        auth = state / "auth"
        auth.write_text(server.session)
        config = state / "merkatd.toml"
        config.write_text(
            f'[daemon]\nstate_directory = "{state}"\nlog_level = "warn"\n'
            f'[cloud]\nkind = "opennebula"\nendpoint = "{server.endpoint}"\n'
            f'auth_file = "{auth}"\n'
            f'[period]\nact_limit = "{PATIENCE_S:g}s"\n[hypervisor]\nkind = "none"\n'
        )
        merkatd = [
            sys.executable,
            "-c",
            "import sys; from merkatd.cli import main; sys.exit(main())",
        ]
        with subprocess.Popen([*merkatd, "run", "--paused", "--config", config]) as daemon:
            try:
                _until(
                    lambda: daemon.poll() is not None or (state / "control.sock").exists(),
                    "merkatd is ready",
                )
                time.sleep(AFTER_S)
                already_s = cpu_s(daemon.pid)
                subprocess.run([*merkatd, "resume", "--config", config], check=True)
                return measured(server, daemon.pid, already_s)
            finally:
                daemon.send_signal(signal.SIGTERM)
                daemon.wait(60)


def built_in(server: MeasuredServer, command: str) -> float:
    """Measure OpenNebula's own scheduler."""
    with subprocess.Popen(shlex.split(command), stdout=subprocess.DEVNULL) as scheduler:
        try:
            return measured(server, scheduler.pid, 0.0)
        finally:
            scheduler.send_signal(signal.SIGTERM)
            try:
                scheduler.wait(10)
            except subprocess.TimeoutExpired:
                scheduler.kill()


def by_turns(
    server: MeasuredServer, runs: dict[str, Callable[[], float]], figures: Figures
) -> list[float]:
    """Return the median CPU time of each scheduler; each run starts with all VMs waiting."""
    used: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(RUNS):
        for name, run in runs.items():
            server.end_all_vms()
            server.fill()
            used[name].append(run())
            figures.plain(f"{name}: CPU seconds", used[name][-1])
            figures.at_most(f"{name}: hosts beyond their capacity", overfull(server), 0)
    for name, cpu in used.items():
        figures.plain(f"{name}: CPU seconds, median of {RUNS}", median(cpu))
    return [median(cpu) for cpu in used.values()]


def main() -> int:
    """Measure both schedulers; return 1 if a limit is missed, 2 if the settings are missing."""
    endpoint, auth = (os.environ.get(f"MERKAT_ONE_{name}", "") for name in ("ENDPOINT", "AUTH"))
    if not endpoint or not auth:
        print(__doc__)
        print("MERKAT_ONE_ENDPOINT and MERKAT_ONE_AUTH are not set: nothing was measured.")
        return 2
    server = MeasuredServer(endpoint, auth)
    server.refuse_to_harm()
    command = os.environ.get("MERKAT_ONE_SCHEDULER", "")
    runs: dict[str, Callable[[], float]] = {"merkatd": lambda: merkat(server)}
    if command:
        runs["the built-in scheduler"] = lambda: built_in(server, command)
    figures = Figures()
    server.clean()
    try:
        server.add_hosts()
        used = by_turns(server, runs, figures)
    finally:
        server.clean()
    if command:
        ours, theirs = used
        figures.at_most("merkatd / the built-in scheduler", ours / theirs, LIMIT)
    return figures.exit_code()


if __name__ == "__main__":
    sys.exit(main())

r"""Placing 500 VMs with bids on 100 hosts of a real OpenNebula: CPU time of Merkat and of mm_sched.

MERKAT_ONE_ENDPOINT=http://127.0.0.1:2633/RPC2 MERKAT_ONE_AUTH=~/.one/one_auth \
MERKAT_ONE_SCHEDULER="mm_sched" python benchmarks/bench_place.py

Needs an OpenNebula 6.10 of its own with the dummy drivers, without hosts, users and VMs, and
without a running scheduler. MERKAT_ONE_SCHEDULER is the command that runs the built-in scheduler
in the foreground against the same server; its sched.conf must let it place all at once:
MAX_VM = 5000, MAX_DISPATCH = 1000, MAX_HOST = 100, SCHED_INTERVAL = 1. Without that command only
Merkat is measured. Hosts of the dummy drivers cost the server a process each time that they
report: an interval of minutes in monitord.conf leaves the machine to what is measured.

Fifty more VMs wait that know nothing of bids, and 25 hosts have one already that Merkat is to
leave alone (MERKAT_MANAGED = NO) and that nearly fills them. Both run three times by turns, on
the same hosts; medians are compared. Like the built-in scheduler, Merkat sends all in one go
here (`act_limit`), however long the server takes.

The time is that of the whole process with all its threads, as /proc/PID/stat has it: of merkatd
from where it is ready to begin its first period, of the scheduler from its very start; for both
until two seconds after the last VM has left PENDING.
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
"""VMs that wait and know nothing of bids; VMs that are there already and nobody's to touch."""
RUNS = 3
FLOOR_PART = 0.25
"""Of the memory of who says nothing of a floor: the default of `floor_part`."""
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
    """The calls that are made here, as the administrator."""

    def __init__(self, endpoint: str, auth: str) -> None:
        self.endpoint = endpoint
        self.auth = auth
        self.session = auth if ":" in auth else Path(auth).expanduser().read_text().strip()
        self._proxy = xmlrpc.client.ServerProxy(endpoint)

    def call(self, method: str, *arguments: Any) -> Any:
        """The value of a call; SystemExit where it is refused."""
        success, value, *_ = getattr(self._proxy, method)(self.session, *arguments)
        if not success:
            sys.exit(f"{method}: {value}")
        return value

    def pool(self, method: str, *arguments: Any) -> list[etree._Element]:
        """The elements of a pool."""
        return list(etree.fromstring(self.call(method, *arguments).encode()))

    def vms(self, state: int = _NOT_DONE) -> list[etree._Element]:
        """The VMs in a state."""
        return self.pool("one.vmpool.infoextended", _ALL, -1, -1, state)

    def hosts(self) -> list[etree._Element]:
        """All hosts."""
        return self.pool("one.hostpool.info")

    def refuse_to_harm(self) -> None:
        """End where the cloud has hosts of others."""
        others = [row.findtext("NAME") for row in self.hosts()]
        if any(not str(name).startswith(NAME) for name in others):
            sys.exit(f"bench_place.py ends all VMs: it needs a cloud of its own, without {others}")

    def end_all_vms(self) -> None:
        """None is left."""
        for row in self.vms():
            self.call("one.vm.recover", _id(row), _DELETE)

    def clean(self) -> None:
        """End all VMs and remove all hosts."""
        self.end_all_vms()
        for row in self.hosts():
            self.call("one.host.delete", _id(row))

    def add_hosts(self) -> None:
        """Hosts that are monitored."""
        for number in range(HOSTS):
            self.call("one.host.allocate", f"{NAME}{number:03d}", "dummy", "dummy", -1)
        _until(
            lambda: all(row.findtext("STATE") == _MONITORED for row in self.hosts()),
            "the hosts are monitored",
        )

    def fill(self) -> None:
        """VMs that nobody is to touch run on some hosts; the others wait."""
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
        """The VMs that run."""
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
    """What a process and all its threads have used."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def overfull(server: MeasuredServer) -> int:
    """How many hosts can't hold the floors of all and the full size of who is left alone."""
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
    """CPU time of a process until all VMs are placed, and a little longer."""
    _until(lambda: not server.vms(_PENDING), "all VMs are placed")
    time.sleep(AFTER_S)
    return cpu_s(pid) - already_s


def merkat(server: MeasuredServer) -> float:
    """The daemon as it is run everywhere, but that it waits until it is told to begin."""
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
    """OpenNebula's own scheduler."""
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
    """The median CPU time of each, in their order; each run finds all VMs waiting."""
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
    """Measure both on a cloud of their own."""
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

"""Settings of the bus and of the controllers' and monitors' processes."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class BusSettings:
    """The processes of controllers and monitors, their limits and the daemon's bus to them."""

    endpoint: str = ""
    """The address on which the daemon listens for controllers and monitors. Empty: sockets in the
    folder `bus` of the state directory, which only the daemon's user may enter; if the folder's
    path is longer than 97 bytes, any free port of this machine. Otherwise a port of this machine,
    such as "tcp://127.0.0.1:*", where * means any free port. All users of the machine can connect
    to a port and use up the daemon's open files."""
    controllers: Path = Path("controllers")
    """The folder of tenants' controllers and monitors: kind "mine" is the file mine.py there. They
    run as the daemon's user: a user with write access here gets the rights of the daemon."""
    beat_s: float = 10.0
    """The interval of a process's heartbeats."""
    silence_s: float = 60.0
    """The time without a message after which the daemon restarts a process."""
    messages: float = 50.0
    """The most messages that a platform may send per second, on average. The daemon drops the
    others."""
    messages_at_once: int = 200
    """The most messages that a platform may send in one burst."""
    traffic_mib: float = 0.5
    """The most bytes per second that a platform may send, and receive in answers, on average. The
    daemon drops messages beyond that."""
    traffic_at_once_mib: float = 16.0
    """The most bytes that a platform may send, and receive in answers, in one burst."""
    restart_least_s: float = 1.0
    """The time until the daemon restarts a process after its first failure. It doubles with each
    further failure, up to `restart_most`."""
    restart_most_s: float = 300.0
    """The longest time until the daemon restarts a failed process."""
    restart_tries: int = 10
    """The number of failed starts in a row after which the daemon gives up a platform's
    controller."""
    memory_mib: int = 1024
    """The largest address space of a process."""
    cpu_s: float = 86_400.0
    """The CPU time after which a process is stopped and started again."""
    files: int = 256
    """The most files that a process may have open."""
    log_mib: float = 1.0
    """The size of each file with the output of a process."""
    logs: int = 4
    """The number of such files that are kept for each process."""
    tenant_processes: int = 40
    """The most controllers and monitors of all platforms of one tenant."""
    tenant_memory_mib: int = 40_960
    """The largest address space of all processes of one tenant. The daemon refuses platforms beyond
    it."""
    ssh_address: str = ""
    """The address at which monitors reach a VM over SSH: {vm} stands for the VM's id, as in
    "10.0.0.{vm}". Empty: commands run through the embedded cloud, on its guests."""
    ssh_allowed: str = ""
    """Other addresses that the monitor of a tenant's template may name, separated by blanks, as in
    "10.1.* *.vms.example.org". In a numeric address, * stands for digits and dots; elsewhere it
    stands for the characters of names. Empty: monitors connect to the platform's own VMs only."""
    ssh_user: str = "root"
    """The user as which monitors log in to VMs."""
    ssh_port: int = 22
    """The SSH port of VMs."""
    ssh_pool: int = 20
    """The most VMs to which a monitor connects at the same time."""
    ssh_connect_s: float = 10.0
    """The longest time to open an SSH connection."""
    ssh_command_s: float = 20.0
    """The longest time for a command on a VM."""

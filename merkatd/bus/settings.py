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
    """Time between the heartbeats of a process."""
    silence_s: float = 60.0
    """Silence after which a process is stopped and started again."""
    messages: float = 50.0
    """Messages that one platform may send per second; further messages are dropped."""
    messages_at_once: int = 200
    """Messages that one platform may send in one burst."""
    traffic_mib: float = 0.5
    """Bytes that one platform may send and receive in answers per second, on average; messages
    beyond that are dropped."""
    traffic_at_once_mib: float = 16.0
    """Bytes that one platform may send and receive in answers in one burst."""
    restart_least_s: float = 1.0
    """Time before a process is started again after its first failure; it doubles each time, up to
    `restart_most`."""
    restart_most_s: float = 300.0
    """The longest time before a failed process is started again."""
    restart_tries: int = 10
    """Failed starts in a row after which a platform's controller is given up."""
    memory_mib: int = 1024
    """The address space of each process."""
    cpu_s: float = 86_400.0
    """The CPU time of each process; after that it is stopped and started again."""
    files: int = 256
    """Files that each process may have open."""
    log_mib: float = 1.0
    """The size of each log file with the output of a process."""
    logs: int = 4
    """The number of log files kept for each process."""
    tenant_processes: int = 40
    """Controllers and monitors that the platforms of one tenant may have together."""
    tenant_memory_mib: int = 40_960
    """The address space of all processes of one tenant; platforms beyond it are refused."""
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
    """VMs to which each monitor connects at the same time."""
    ssh_connect_s: float = 10.0
    """The longest time to open an SSH connection."""
    ssh_command_s: float = 20.0
    """The longest time for a command on a VM."""

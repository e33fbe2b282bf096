"""What an administrator can choose about the bus and the processes at its other end."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class BusSettings:
    """Controllers and monitors: how they are reached, and how they are kept."""

    endpoint: str = ""
    """Where the daemon listens for them. Empty: at sockets in the state directory, in the folder
    `bus`, which only the daemon's user may enter. Else a port of this machine, such as
    "tcp://127.0.0.1:*"; * stands for one that is free. All users of the machine can connect to
    that, and use up the daemon's open files. Where the path of the folder is too long for a socket
    (more than 97 bytes) it is such a port too."""
    controllers: Path = Path("controllers")
    """The folder of tenants' controllers and monitors: kind "mine" is the file mine.py there. They
    run as the daemon's user: whoever may write here may do what that user may."""
    beat_s: float = 10.0
    """How often a process says that it is there."""
    silence_s: float = 60.0
    """A process that is not heard for so long is ended and started again."""
    messages: float = 50.0
    """How many messages one platform may send in a second; what is beyond it is thrown away."""
    messages_at_once: int = 200
    """So many may come together."""
    traffic_mib: float = 0.5
    """How much one platform may send and be answered in a second, on average; messages beyond it
    are thrown away."""
    traffic_at_once_mib: float = 16.0
    """So much may come together."""
    restart_least_s: float = 1.0
    """How long to wait before a process that ended is started again; twice as long each time,"""
    restart_most_s: float = 300.0
    """up to this."""
    restart_tries: int = 10
    """After so many starts in a row that came to nothing, a platform's controller is given up."""
    memory_mib: int = 1024
    """The address space of each process."""
    cpu_s: float = 86_400.0
    """The CPU time of each; then it is ended and started again."""
    files: int = 256
    """How many files each may have open."""
    log_mib: float = 1.0
    """How much of the output of each process is kept in a file,"""
    logs: int = 4
    """and in how many files."""
    tenant_processes: int = 40
    """How many controllers and monitors the platforms of one tenant may have together."""
    tenant_memory_mib: int = 40_960
    """The address space of all of them: with more, a further platform is refused."""
    ssh_address: str = ""
    """Where monitors reach a VM over SSH: {vm} stands for its id, as in "10.0.0.{vm}". Empty:
    guests of the embedded cloud are asked through it."""
    ssh_allowed: str = ""
    """Other addresses that the monitor of a tenant's template may name, separated by blanks, as in
    "10.1.* *.vms.example.org". There * stands for digits and dots in an address of numbers, else
    for the characters of names. Empty: monitors connect to the platform's own VMs alone."""
    ssh_user: str = "root"
    """Whom monitors log in as,"""
    ssh_port: int = 22
    """and at which port."""
    ssh_pool: int = 20
    """So many VMs each monitor talks to at once."""
    ssh_connect_s: float = 10.0
    """How long a connection may take to be opened,"""
    ssh_command_s: float = 20.0
    """and a command on a VM to end."""

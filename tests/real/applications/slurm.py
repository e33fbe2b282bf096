"""A Slurm of a controller and workers that come and go, as commands that VMs run."""

import os
from pathlib import Path

from tests.real.applications.site import NETWORK

KIND = "slurm"
NODES: tuple[str, ...] = ("sinfo", "-h", "-N", "-o", "%N")
TOLD: tuple[str, ...] = ("sinfo -N -l", "squeue -l", "scontrol show nodes")
TASK = "SLURM_ARRAY_TASK_ID"
_CONF = """\
ClusterName=test
SlurmctldHost=one-{head}({network}.{head})
SlurmctldPort=16817
SlurmdPort=16818
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
CommunicationParameters=NoInAddrAny
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
SlurmdTimeout=60
MessageTimeout=60
BatchStartTimeout=60
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
MaxNodeCount=64
TreeWidth=65533
SchedulerParameters=bf_interval=2,sched_interval=1
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def prepare(folder: Path, head: int) -> None:
    """Write the configuration, for the VM with this id as head."""
    for name in ("state", "spool", "log", "munge"):
        (folder / name).mkdir()
    (folder / "slurm.conf").write_text(_CONF.format(folder=folder, head=head, network=NETWORK))
    # Found out by itself it is looked for where a container has none.
    (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
    key = folder / "munge/key"
    key.touch(0o600)
    key.write_bytes(os.urandom(1024))


def environment(folder: Path) -> str:
    """Return the path of the configuration."""
    return f"SLURM_CONF={folder}/slurm.conf"


def words(folder: Path, *command: str) -> list[str]:
    """Return the words of a command, which runs on any machine that reaches the head."""
    return ["env", environment(folder), *command]


def submission(script: Path, jobs: int) -> list[str]:
    """Return the command that submits jobs without output."""
    return ["sbatch", "-o", "/dev/null", f"--array=1-{jobs}", str(script)]


def as_head(folder: Path) -> str:
    """Return the command that runs slurmctld, and munged, which all VMs reach by its socket."""
    munge = folder / "munge"
    return (
        f"munged --force --key-file={munge}/key --socket={munge}/socket --pid-file={munge}/pid"
        f" --log-file={munge}/log --seed-file={munge}/seed;"
        f" ln -sf {folder}/slurm.conf $PLACE/slurm.conf;"
        f" {environment(folder)} slurmctld -D"
    )


def as_worker(folder: Path) -> str:
    """Return the command of a node that joins by itself, with its VM's name."""
    return (
        f"{environment(folder)} slurmd -D -Z -N one-$VM --conf"
        " 'CPUs=1 RealMemory=60 NodeHostname=one-'$VM' NodeAddr='$ADDRESS"
    )

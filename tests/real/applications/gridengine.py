"""A Grid Engine of a head and workers that come and go, as commands that VMs run.

The cell is in a folder that all VMs share, as at most sites. A worker must not change the cell: it
asks the head to admit it, over SSH with a key that allows only that.
"""

import re
import subprocess
from pathlib import Path

from tests.real.applications.site import LOGIN, NETWORK

KIND = "gridengine"
NODES: tuple[str, ...] = ("qconf", "-sel")
TOLD: tuple[str, ...] = ("qhost -q -j", "qstat -f -u *", "qconf -shgrp @allhosts", "qconf -sel")
TASK = "SGE_TASK_ID"
_PROGRAMS = "/usr/lib/gridengine"
_DEFAULTS = Path("/usr/share/gridengine/default-configuration")
_BOOTSTRAP = """\
admin_user none
default_domain none
ignore_fqdn true
spooling_method classic
spooling_lib libspoolc
spooling_params {folder}/default/common;{folder}/spool
binary_path {programs}
qmaster_spool_dir {folder}/spool
security_mode none
listener_threads 2
worker_threads 2
scheduler_threads 1
"""
_OTHERWISE = {
    "execd_spool_dir": "{folder}/nodes",
    "min_uid": "0",
    "min_gid": "0",
    "load_report_time": "00:00:02",
    "max_unheard": "00:01:00",
}
"""Changes to Debian's configuration; the test's only user is root."""
_HEAD = """\
cd {folder}
export {environment} EDITOR=true SGE_ND=1
resources=/usr/share/gridengine/util/resources
spoolinit classic libspoolc "$PWD/default/common;$PWD/spool" init
spooldefaults configuration $PWD/configuration
spooldefaults complexes $resources/centry
spooldefaults usersets $resources/usersets
spooldefaults pes $resources/pe
spooldefaults managers root
hostname >default/common/act_qmaster
sge_qmaster >log/qmaster 2>&1 &
until qconf -sh; do sleep 0.2; done
qconf -as $(hostname),{login}; qconf -ah {login}
key="restrict,command=\\"sh $PWD/admit\\" $(cat key.pub)"
echo "$key" >>$PLACE/authorised
qconf -ssconf >scheduler
sed -i 's/^\\(schedule_interval\\).*/\\1 0:0:1/; s/^\\(flush_.*_sec\\).*/\\1 1/' scheduler
qconf -Msconf scheduler
# The templates in the editor, which leaves them as they are.
qconf -ahgrp @allhosts
qconf -aq all.q
qconf -rattr queue hostlist @allhosts all.q
qconf -rattr queue load_thresholds NONE all.q
qconf -rattr queue rerun TRUE all.q
# While no host is there at all qsub says of each job that it can not run.
qconf -aattr queue slots "[$(hostname)=0]" all.q
qconf -aattr hostgroup hostlist $(hostname) @allhosts
wait
"""
_ADMIT = """\
expr "$SSH_ORIGINAL_COMMAND" : 'one-[0-9]*$' >/dev/null || exit 1
qconf -as $SSH_ORIGINAL_COMMAND
qconf -aattr hostgroup hostlist $SSH_ORIGINAL_COMMAND @allhosts
"""
_WORKER = """\
cd {folder}
export {environment} SGE_ND=1
until ssh -i key -o BatchMode=yes -o StrictHostKeyChecking=no {network}.{head} $(hostname)
do sleep 1; done
until sge_execd; do sleep 1; done
"""
"""The first report of sge_execd makes the worker an execution host."""


def prepare(folder: Path, head: int) -> None:
    """Write the cell, for the VM with this id as head."""
    for name in ("default/common", "spool/job_scripts", "nodes", "log"):
        (folder / name).mkdir(parents=True)
    (folder / "default/common/bootstrap").write_text(
        _BOOTSTRAP.format(folder=folder, programs=_PROGRAMS)
    )
    configuration = _DEFAULTS.read_text()
    for key, value in _OTHERWISE.items():
        line = f"{key} {value.format(folder=folder)}"
        configuration = re.sub(rf"(?m)^{key}\s.*", line, configuration)
    (folder / "configuration").write_text(configuration)
    for name, text in (("head", _HEAD), ("admit", _ADMIT), ("worker", _WORKER)):
        variables = environment(folder)
        (folder / name).write_text(
            text.format(
                folder=folder, environment=variables, login=LOGIN, network=NETWORK, head=head
            )
        )
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "key"], check=True
    )


def environment(folder: Path) -> str:
    """Return the paths of the cell and of the programs, because Debian's wrappers are slow."""
    ports = "SGE_QMASTER_PORT=16444 SGE_EXECD_PORT=16445"
    return f"SGE_ROOT={folder} SGE_CELL=default {ports} PATH={_PROGRAMS}:/usr/sbin:/usr/bin"


def words(folder: Path, *command: str) -> list[str]:
    """Return the words that run a command with the host name that Grid Engine needs."""
    named = f'hostname {LOGIN}; exec env {environment(folder)} "$@"'
    return ["unshare", "--uts", "sh", "-c", named, LOGIN, *command]


def submission(script: Path, jobs: int) -> list[str]:
    """Return the command that submits jobs without output."""
    return ["qsub", "-o", "/dev/null", "-j", "y", "-t", f"1-{jobs}", str(script)]


def as_head(folder: Path) -> str:
    """Return the command that creates a cell with one queue and runs sge_qmaster."""
    return f"sh -x {folder}/head"


def as_worker(folder: Path) -> str:
    """Return the command of an execution host that joins by itself, with its VM's name."""
    return f"sh -x {folder}/worker"

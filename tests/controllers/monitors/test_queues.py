"""Answers of batch systems and the values that controllers get from them.

Slurm's answer has the form of a real slurmctld; Grid Engine's was recorded, like its answers to the
removal of a host.
"""

import asyncio
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from controllers.monitors.batch_systems.batch_system import age_s, left_of
from controllers.monitors.batch_systems.grid_engine import GridEngine
from controllers.monitors.batch_systems.slurm import Slurm
from controllers.monitors.queue_monitor import ClusterHead, QueueMonitor, queue_values
from controllers.monitors.ssh_pool import CommandResult
from merkatd.protocol.monitor_terms import MAX_NAME_LENGTH, WorkerNames
from tests.bus.rig import assignment, watched

ONE = WorkerNames.of("one-{vm}")
SLURM = """\
      1 COMPLETING|1|2026-11-22T09:00:00|None|one-3
      1 PENDING|4|2026-11-22T09:00:49|Resources|
    998 PENDING|1|2026-11-22T09:00:58|Priority|
     50 PENDING|1|2026-11-22T08:00:58|JobArrayTaskLimit|
      1 PENDING|1|2026-11-22T08:00:00|JobHeldUser|
      1 RUNNING|2|2026-11-22T09:00:01|None|one-[3-4],one-7
--nodes--
one-3|mix
one-4|drng
one-5|idle
one-6|down*
one-7|alloc
--now--
2026-11-22T09:01:01
"""

GRID = Path(__file__).with_name("gridengine.txt").read_text()


def test_slurm_is_parsed() -> None:
    """Jobs on several nodes count on each; held jobs and silent nodes don't count."""
    queue = Slurm().read(SLURM)
    assert (queue.waiting, queue.wanted, queue.longest_s, queue.running) == (999, 1002, 12.0, 2)
    assert {name: worker.jobs for name, worker in queue.workers.items()} == {
        "one-3": 2,
        "one-4": 1,
        "one-5": 0,
        "one-6": 0,
        "one-7": 1,
    }
    assert queue.workers["one-4"].drained
    assert queue_values(queue, ONE) == {
        "waiting": 999.0,
        "wanted": 1002.0,
        "longest_s": 12.0,
        "running": 2.0,
        "jobs/3": 2.0,
        "jobs/4": 1.0,
        "closed/4": 1.0,
        "jobs/5": 0.0,
        "jobs/7": 1.0,
    }


@pytest.mark.parametrize(
    ("state", "jobs"),
    [
        ("SUSPENDED", 1),
        ("STOPPED", 1),
        ("SIGNALING", 1),
        ("STAGE_OUT", 1),
        ("RESIZING", 1),
        ("POWER_UP_NODE", 1),
        ("COMPLETED", 0),
        ("TIMEOUT", 0),
        ("NODE_FAIL", 0),
    ],
)
def test_a_job_of_slurm_holds_its_node_until_it_is_over(state: str, jobs: int) -> None:
    """This holds in any state, else its worker would look idle and end."""
    queue = Slurm().read(SLURM.replace("RUNNING", state))
    assert queue.workers["one-7"].jobs == jobs
    assert (queue.waiting, queue.running) == (999, 1 + jobs)


@pytest.mark.parametrize(
    "why",
    [
        "launch failed requeued held",
        "launch_failed_requeued_held",
        "JobHoldMaxRequeue",
        "PartitionTimeLimit",
        "PartitionDown",
        "InvalidAccount",
        "Licenses",
        "ReservationDeleted",
    ],
)
def test_a_job_of_slurm_that_no_worker_would_help_does_not_wait(why: str) -> None:
    """Its tenant would pay for idle workers for as long as the job is there."""
    held = f"     64 PENDING|1|2026-11-22T08:00:00|{why}|\n"
    assert Slurm().read(held + SLURM) == Slurm().read(SLURM)


def test_a_requeued_job_on_hold_holds_no_node() -> None:
    """No worker would help it."""
    held = "      2 REQUEUE_HOLD|1|2026-11-22T09:00:49|JobHeldUser|\n"
    assert Slurm().read(held + SLURM) == Slurm().read(SLURM)


def test_grid_engine_is_parsed() -> None:
    """Each task of an array is a job; a parallel job counts on each host, but once."""
    queue = GridEngine().read(GRID)
    # Of three arrays and jobs with two slots, without held, failed and future jobs.
    assert (queue.waiting, queue.wanted, queue.longest_s, queue.running) == (10, 15, 22.0, 3)
    assert queue_values(queue, ONE) == {
        "waiting": 10.0,
        "wanted": 15.0,
        "longest_s": 22.0,
        "running": 3.0,
        "jobs/11": 2.0,
        "jobs/12": 1.0,
        "jobs/13": 1.0,
        "jobs/14": 1.0,
        "closed/14": 1.0,
        "jobs/15": 1.0,
    }


def test_a_silent_or_broken_host_of_grid_engine_is_lost() -> None:
    """One in error with jobs is closed first: its jobs may still complete."""
    workers = GridEngine().read(GRID).workers
    assert {name for name, worker in workers.items() if worker.lost} == {"one-0", "one-16"}
    broken = GridEngine().read(GRID.replace("<state>d</state>", "<state>E</state>"))
    assert broken.workers["one-14"].drained
    assert not broken.workers["one-14"].lost


def test_a_host_with_two_queues_is_drained_in_both() -> None:
    """It accepts jobs while one is open."""
    single, both = "all.q@one-11", "q@one-11"
    for name, drained in ((single, False), (both, True)):
        answer = re.sub(f"(?s)({name}</name>.*?</arch>)", r"\1<state>d</state>", GRID)
        assert GridEngine().read(answer).workers["one-11"].drained is drained


@pytest.mark.parametrize(
    ("tasks", "count"), [("3-10:1", 8), ("1-7:2", 4), ("3,5", 2), ("1-3:1,7,9-10:1", 6), ("4", 1)]
)
def test_waiting_tasks_of_an_array_are_counted(tasks: str, count: int) -> None:
    """All notations work."""
    answer = GRID.replace("<tasks>1-5:1</tasks>", f"<tasks>{tasks}</tasks>")
    assert GridEngine().read(answer).wanted == 5 + 2 * count


@pytest.mark.parametrize("batch", [Slurm(), GridEngine()])
def test_an_invalid_answer_is_refused(batch: Slurm | GridEngine) -> None:
    """It may be an error of the shell."""
    for text in ("squeue: not found\n", "--now--\n", ""):
        with pytest.raises(ValueError, match="expected an answer"):
            batch.read(text)


def test_commands_quote_worker_names() -> None:
    """This holds for any name."""
    assert Slurm().drain(["a", "b"]) == "scontrol update nodename=a,b state=drain reason=merkat"
    assert Slurm().restore(["a; rm x"]).endswith("nodename='a; rm x' state=resume")
    assert (
        Slurm()
        .forget(["a", "b c"])
        .startswith("scontrol delete nodename=a; scontrol delete nodename='b c'; ")
    )
    assert GridEngine().drain(["a"]) == "qmod -d '*@a'"
    assert GridEngine().restore(["a", "b; rm x"]) == "qmod -e '*@a' '*@b; rm x'"


JOB = "<job_list><JB_job_number>19</JB_job_number><tasks>{}</tasks></job_list>"


@pytest.mark.parametrize(
    ("jobs", "hosts", "words", "left"),
    [
        # Drained and removed: it runs no job.
        (["", ""], "one-0", ["-dattr"], set()),
        ([JOB.format(1), ""], "one-0", ["-aattr", "-d", "-rj 19.1", "-dattr"], set()),
        # Its job must not run again.
        ([JOB.format(2)] * 2, "one-0", ["-aattr", "-d", "-rj 19.2", "-f 19.2", "-dattr"], set()),
        (["", ""], "one-0\none-7", ["-dattr"], {"one-7"}),
        (["", ""], "one-77", ["-dattr"], set()),
    ],
)
def test_a_host_of_grid_engine_is_removed_with_its_jobs(
    tmp_path: Path, jobs: list[str], hosts: str, words: list[str], left: set[str]
) -> None:
    """They restart before it leaves its group; otherwise a qmaster crashes."""
    for number, job in enumerate(jobs):
        (tmp_path / f"jobs-{number}").write_text(job.replace("><", ">\n<"))
    (tmp_path / "hosts").write_text(f"{hosts}\n")
    program = f"""#!/bin/sh
cd {tmp_path}
case "$0 $1" in
*qstat*) next=$(ls jobs-* | head -1); cat $next; rm $next;;
*-sel) cat hosts;;
*-sh) ;;
*) echo "$@" >>told; exit 1;;
esac
"""
    for name in ("qstat", "qconf", "qmod", "qdel"):
        (tmp_path / name).write_text(program)
        (tmp_path / name).chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = ["sh", "-c", GridEngine().forget(["one-6", "one-7"])]
    answer = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE).stdout
    lines = (tmp_path / "told").read_text().splitlines()
    assert [line[: len(word)] for line, word in zip(lines, words, strict=True)] == words
    assert left_of(answer.decode()) == frozenset(left)


@pytest.mark.parametrize(
    ("nodes", "left"),
    [("one-0\none-7\none-7\n", {"one-7"}), ("one-77\n", set()), ("", set()), (None, None)],
)
def test_a_node_that_slurm_keeps_is_named(
    tmp_path: Path, nodes: str | None, left: set[str] | None
) -> None:
    """Each is deleted separately; without an answer of Slurm the result is unknown."""
    say = "exit 1" if nodes is None else f"printf '{nodes}'"
    for name, does in (("scontrol", "echo refused; exit 1"), ("sinfo", say)):
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / name).chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = ["sh", "-c", Slurm().forget(["one-6", "one-7"])]
    ended = subprocess.run(command, env=environment, check=False, stdout=subprocess.PIPE)
    assert left_of(ended.stdout.decode()) == left
    assert (ended.returncode == 0) is (left is not None)


class Mute(ClusterHead):
    """A head with one answer."""

    def __init__(self, out: str) -> None:
        self.out = out.encode()

    async def say(self, command: str) -> CommandResult:  # noqa: ARG002
        """Return the same answer."""
        return CommandResult(0, self.out, b"")


def looked(batch: str, out: str) -> Any:
    """Return the monitor's values for an answer of the head."""
    assigned = watched(assignment(), "queue", batch=batch)
    hand: Any = None
    return asyncio.run(QueueMonitor(assigned, assigned.clusters[0], hand, head=Mute(out)).look())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("<tasks>1-5:1</tasks>", "<tasks>1-5:0</tasks>"),
        ("<tasks>1-5:1</tasks>", "<tasks>1-" + "9" * 4_000 + ":1</tasks>"),
        ("<slots>2</slots>", "<slots>" + "9" * 400 + "</slots>"),
        ("<slots>2</slots>", "<slots>" + "9" * 9_000 + "</slots>"),
    ],
)
def test_any_number_of_a_head_is_handled(old: str, new: str) -> None:
    """The tenant owns this machine: such an answer is dropped and the monitor continues."""
    assert looked("gridengine", GRID) is not None
    assert old in GRID
    assert looked("gridengine", GRID.replace(old, new)) is None


def test_a_time_with_a_zone_is_ignored() -> None:
    """The difference to a time without a zone is unknown."""
    assert age_s("2026-11-22T09:00:00+00:00", "2026-11-22T09:00:49") == 0.0


@pytest.mark.parametrize(
    "text", ["", "one", "{vm}{vm}", "{vm}" * 20 + "x", "{vm}" + "x" * MAX_NAME_LENGTH]
)
def test_a_worker_name_has_its_vm_in_one_place(text: str) -> None:
    """Several places would allow too many readings."""
    with pytest.raises(ValueError, match=r"worker must have \{vm\} once"):
        WorkerNames.of(text)


@given(st.text(max_size=9), st.text(max_size=9), st.integers(0, 2**31))
def test_a_worker_name_can_be_converted_back(before: str, after: str, vm: int) -> None:
    """The text around the VM's id doesn't matter."""
    assume("{vm}" not in before + after)
    assume((f"{before}{{vm}}{after}").count("{vm}") == 1)
    names = WorkerNames.of(f"{before}{{vm}}{after}")
    assert names.vm_of(names.of_vm(vm)) == vm


@pytest.mark.parametrize("name", ["one-", "one-x", "two-3", "one-3.local", "one-\u0663", "one--3"])
def test_other_names_are_no_workers(name: str) -> None:
    """Other machines may be in the same batch system."""
    assert ONE.vm_of(name) is None
    assert ONE.vm_of(f"one-{'9' * 5_000}") is None


def test_a_head_that_names_any_number_of_workers_fills_no_message() -> None:
    """The daemon forwards and stores what a monitor reports, each second if the tenant likes."""
    rows = "".join(
        f"<Queue-List><name>all.q@one-{vm}</name><state>d</state></Queue-List>"
        for vm in range(20_000)
    )
    document = f"<job_info><queue_info>{rows}</queue_info></job_info>"
    _, values = looked("gridengine", f"{document}\n--later--\n--now--\n")
    assert len(values) <= 4 + 2 * (assignment().most_vms + 1_000)
    assert {"jobs/19999", "closed/19999"} <= values.keys()

"""What batch systems answer, and what the controller is told of it.

Slurm's answer has the form that a real slurmctld was seen to give; Grid Engine's is written by
hand.
"""

import pytest

from controllers.monitors.queue import told
from controllers.monitors.queues.gridengine import GridEngine
from controllers.monitors.queues.slurm import Slurm

SLURM = """\
PENDING|4|12|
PENDING|1|3|
RUNNING|2|60|one-[3-4],one-7
COMPLETING|1|61|one-3
--nodes--
one-3|mix
one-4|drng
one-5|idle
one-6|down*
one-7|alloc
"""

GRID = """\
<?xml version='1.0'?>
<job_info><queue_info>
<Queue-List><name>all.q@one-3</name><state></state>
<job_list state="running"><JB_job_number>1</JB_job_number><slots>1</slots></job_list></Queue-List>
<Queue-List><name>all.q@one-4</name><state>d</state></Queue-List>
<Queue-List><name>all.q@one-5</name><state>au</state></Queue-List>
</queue_info><job_info>
<job_list state="pending"><JB_submission_time>2026-05-01T09:00:00</JB_submission_time>
<slots>4</slots></job_list></job_info></job_info>

--now--
2026-05-01T09:01:30
"""


def test_slurm() -> None:
    """Jobs on several nodes count on each; a node that is not heard is no worker."""
    queue = Slurm().read(SLURM)
    assert (queue.waiting, queue.wanted, queue.longest_s, queue.running) == (2, 5, 12.0, 2)
    assert {name: one.jobs for name, one in queue.workers.items()} == {
        "one-3": 2,
        "one-4": 1,
        "one-5": 0,
        "one-6": 0,
        "one-7": 1,
    }
    assert queue.workers["one-4"].drained
    assert told(queue, "one-{vm}") == {
        "waiting": 2.0,
        "wanted": 5.0,
        "longest_s": 12.0,
        "running": 2.0,
        "jobs/3": 2.0,
        "jobs/4": 1.0,
        "closed/4": 1.0,
        "jobs/5": 0.0,
        "jobs/7": 1.0,
    }


def test_grid_engine() -> None:
    """Slots are processors; a queue instance that is disabled is drained."""
    queue = GridEngine().read(GRID)
    assert (queue.waiting, queue.wanted, queue.longest_s, queue.running) == (1, 4, 90.0, 1)
    assert queue.workers["one-4"].drained
    assert told(queue, "one-{vm}")["jobs/3"] == 1.0
    assert "jobs/5" not in told(queue, "one-{vm}")


@pytest.mark.parametrize("batch", [Slurm(), GridEngine()])
def test_what_is_no_answer_is_refused(batch: Slurm | GridEngine) -> None:
    """An error of the shell, say."""
    for text in ("squeue: not found\n", "--now--\n", ""):
        with pytest.raises(ValueError, match="not an answer"):
            batch.read(text)


def test_commands_name_workers_safely() -> None:
    """Whatever they are called."""
    assert Slurm().drain(["a", "b"]) == "scontrol update nodename=a,b state=drain reason=merkat"
    assert Slurm().restore(["a; rm x"]).endswith("nodename='a; rm x' state=resume")
    assert Slurm().forget(["a", "b"]) == "scontrol delete nodename=a; scontrol delete nodename=b"
    assert GridEngine().drain(["a"]) == "qmod -d '*@a'"

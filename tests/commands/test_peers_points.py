"""What users of OpenNebula and Slurm expect of a command line, point by point.

Each point names the peer's command, what it prints or takes there, Merkat's command for it, and the
shape of Merkat's answer: a regular expression for the whole output. Points of commands that Merkat
answers with another word name that word.
"""

import csv
import io
import json
import re
from dataclasses import dataclass

import pytest
from lxml import etree

from tests.commands.asking import Shell


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a peer's command."""

    peer: str
    expects: str
    command: str
    shape: str
    """A regular expression that is found in the output."""


def columns(*names: str) -> str:
    """Return the shape of a table whose first line has these columns, in this order."""
    return r"\A.*" + ".*".join(rf"\b{name}\b" for name in names) + r".*\n"


_ROW = r"(?m)^ *\d+ .*$"
POINTS = (
    # onevm: its list has ID USER GROUP NAME STAT CPU MEM HOST TIME.
    Point(
        "onevm list", "id, user, group, name", "list vms", columns("ID", "NAME", "USER", "GROUP")
    ),
    Point("onevm list", "state and host", "list vms", columns("STATE", "HOST")),
    Point("onevm list", "CPU and memory", "list vms", columns("CPU", "MEMORY")),
    Point("onevm list", "the time that it has run", "list vms -l ID,TIME", r"(?m)^ *0 .*\d+ s$"),
    Point("onevm list -l", "chosen columns", "list vms -l ID,NAME", r"\AID  NAME\n"),
    Point(
        "onevm list -f", "rows by a condition", "list vms -f STATE=PENDING -l NAME", r"\nbig\n\Z"
    ),
    Point(
        "onevm list --operator", "all conditions", "list vms -f ID>0,ID<2 -l ID", r"\AID\n 1\n\Z"
    ),
    Point(
        "onevm list --csv", "values with commas", "list vms --csv -l ID,NAME", r"\AID,NAME\n0,web-0"
    ),
    Point(
        "onevm list --csv-del",
        "another separator",
        "list vms --csv --csv-del ; -l ID,NAME",
        "0;web",
    ),
    Point("onevm list -j", "JSON", "list vms -j -l ID", r'\A\[\n  \{\n    "id": 0'),
    Point(
        "onevm list -x", "a pool in XML", "list vms -x -l ID", r"\A<VM_POOL>\n  <VM>\n    <ID>0<"
    ),
    Point("onevm list -y", "YAML", "list vms -y -l ID,NAME", r'\A- id: 0\n  name: "web-0"\n'),
    Point("onevm list --no-header", "rows alone", "list vms --no-header -l ID", r"\A *0\n"),
    Point("onevm list --no-pager", "no pager", "list vms --no-pager -l ID", r"\AID\n"),
    Point("onevm list --expand", "nothing is cut", "list vms --expand", "MESSAGE"),
    Point("onevm list --listconf", "named columns", "list vms --listconf all --csv", "FLOOR_CPU"),
    Point("onevm list --sort", "an order", "list vms --sort -ID -l ID --csv", r"\AID\n5\n4\n"),
    Point(
        "onevm list --describe", "what columns mean", "list vms --describe", r"\* ID +OpenNebula's"
    ),
    Point("onevm list --numeric", "plain numbers", "list vms --csv -l MEMORY", r"\n2048\.0\n"),
    Point("onevm show ID", "a VM by id", "explain 0", r"\AVM 0 \(web-0\)"),
    Point("onevm show NAME", "a VM by name", "explain web-0", r"\AVM 0 \(web-0\)"),
    Point("onevm show", "its host and state", "explain 0", r"State +RUNNING.*\nHost +host000\n"),
    Point(
        "onevm ... 0..2", "a range of ids", "explain 0..2 --csv -l VM", r"\AVM\n0\n0\n1\n1\n2\n2\n"
    ),
    Point("onevm ... 0,2", "a list of ids", "explain 0,2 --csv -l VM", r"\AVM\n0\n0\n2\n2\n"),
    Point("onevm --help", "help of all commands", "--help", r"explain +explain VMs"),
    Point("onevm", "help without a command", "", r"\Ausage: merkatd"),
    Point("onevm", "options before the verb", "--csv list vms -l ID", r"\AID\n0\n"),
    Point("onevm completion", "words in the shell", "completion bash", r"complete .*merkatd"),
    Point("onevm -V", "a version", "--version", r"\Amerkatd \d"),
    Point("oneshowback list", "costs of a VM in a month", "statement 0 --csv", r"\A\w+,.*COST"),
    # onehost: its list has ID NAME CLUSTER TVM ALLOCATED_CPU ALLOCATED_MEM STAT.
    Point("onehost list", "id, name and state", "list hosts", columns("ID", "NAME", "STAT")),
    Point("onehost list", "VMs", "list hosts", columns("VMS")),
    Point("onehost list", "allocated CPU", "list hosts", columns("CPU", "GIVEN_CPU")),
    Point("onehost list", "allocated memory", "list hosts", columns("MEMORY", "GIVEN_MEMORY")),
    Point("onehost list", "states of one word", "list hosts -l STAT", r"\ASTAT\non\non\n\Z"),
    Point(
        "onehost show HOST",
        "one host with its real use",
        "list hosts -f NAME=host000 -l ID,USED_CPU,USED_MEMORY",
        r"\AID +USED_CPU +USED_MEMORY\n 0 +\d",
    ),
    Point("onehost top", "a live view", "top --once", r"HOST +STAT +VMS"),
    Point("onehost disable", "a host without new VMs", "host --help", r"drain\|undrain"),
    # squeue: JOBID PARTITION NAME USER ST TIME NODES NODELIST(REASON).
    Point("squeue", "what waits, and why", "list vms -f STATE=PENDING -l ID,MESSAGE", _ROW),
    Point("squeue", "the reason in a table", "plan --csv", columns("REASON")),
    Point(
        "squeue -u USER", "rows of a user", "list vms -f USER=oneadmin -l ID --csv", r"\AID\n0\n"
    ),
    Point(
        "squeue -t STATE", "rows in a state", "list vms -f STATE=RUNNING -l ID --csv", r"\AID\n0\n"
    ),
    Point(
        "squeue -w NODE", "rows on a host", "list vms -f HOST=host000 -l ID --csv", r"\AID\n0\n4"
    ),
    Point(
        "squeue -j ID",
        "rows of an id",
        "list vms -f ID=5 -l ID,STATE",
        r"\AID +STATE\n 5 +PENDING\n",
    ),
    Point("squeue --start", "what is ahead of it", "explain big", r"\nQueue +no other VM waits\n"),
    Point("squeue -S -c", "sorted downwards", "list vms -s -CPU -l ID --csv", r"\AID\n4\n"),
    Point("squeue -h", "no header", "list vms --no-header -l NAME", r"\Aweb-0\n"),
    Point("squeue -o", "chosen fields", "list vms -l ID,STATE,TIME", r"\AID +STATE +TIME\n"),
    Point("squeue -i", "it repeats", "list vms --help", r"--delay SECONDS"),
    Point("squeue --json", "JSON", "list vms --json -l ID", r"\A\["),
    Point("squeue --yaml", "YAML", "list vms --yaml -l ID", r"\A- id: 0\n"),
    # sprio: the factors of a priority, and their weights.
    Point("sprio", "the parts of a share", "explain 0", r"BID  BIDS  CAPACITY  BY_BID  OTHERS"),
    Point("sprio -j ID", "of several VMs", "explain 0 1 --csv -l VM,BID", r"\AVM,BID\n0,1\.0\n"),
    Point("sprio -w", "the weights", "tenant list", columns("WEIGHT")),
    Point("sprio -o", "chosen factors", "explain 0 -l RESOURCE,BID", r"\ARESOURCE +BID\ncpu "),
    Point("sprio -l", "all factors", "explain 0 --listconf all --csv", "BIDDERS,PRICE,COST"),
    # sshare: account, user, shares, usage, fair share.
    Point(
        "sshare", "tenants with their shares", "tenant list", columns("NAME", "WEIGHT", "BALANCE")
    ),
    Point("sshare", "use and part of each tenant", "share", columns("USED", "COST")),
    Point("sshare -u USER", "one user", "share oneadmin --csv -l USER", r"\AUSER\noneadmin\n\Z"),
    Point("sshare -A", "one account", "tenant show 0", "oneadmin"),
    Point(
        "sshare -P", "parsable", "tenant list --csv-del | -l ID,NAME", r"\AID\|NAME\n0\|oneadmin"
    ),
    Point("sshare", "credits left", "budget --csv", columns("NAME", "BUDGET", "BALANCE")),
    # sreport: use and costs of a time, in hours.
    Point(
        "sreport cluster", "use in hours", "statement 0 --csv", columns("CPU_HOURS", "MEMORY_HOURS")
    ),
    Point("sreport cluster", "all tenants and months", "report --csv", columns("COST")),
    Point("sreport start=", "of a month", "statement 0 --month 2020-01 --csv", r"\A\w+,"),
    Point("sreport -t", "prices for an hour", "price --csv -l RESOURCE,UNIT", r"cpu,core-hour\n"),
    Point(
        "sreport -P",
        "parsable",
        "statement 0 --csv-del | --no-header",
        r"\Aoneadmin\|\w*\|\d+\|web",
    ),
    Point(
        "sreport user top",
        "the largest costs first",
        "report --sort -COST --csv -l USER,COST",
        r"\AUSER,COST\noneadmin,\d",
    ),
    # What both families do on mistakes.
    Point(
        "sinfo", "capacity and prices now", "price", columns("MARKET", "RESOURCE", "PRICE", "UNIT")
    ),
    Point(
        "sacct", "the past with reasons", "log --csv", columns("PERIOD", "TIME", "KIND", "REASON")
    ),
    Point("sacct -S", "since a time", "log --since 2d -l PERIOD --csv", r"\APERIOD\n1\n"),
    Point(
        "sacct", "times with a zone", "log -l TIME --limit 1", r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \S+"
    ),
)


def named(point: Point) -> str:
    """Return the name of a point."""
    return f"{point.peer}: {point.expects}"


@pytest.mark.parametrize("point", POINTS, ids=named)
def test_each_point_has_a_command_with_its_shape(point: Point, asked: Shell) -> None:
    """The command succeeds without warnings."""
    result = asked(*point.command.split())
    assert (result.code, result.err) == (0, ""), result
    assert re.search(point.shape, result.out), result.out


def test_the_points_cover_the_peers() -> None:
    """No point is there twice."""
    peers = {point.peer.split()[0] for point in POINTS}
    assert {"onevm", "onehost", "squeue", "sprio", "sshare", "sreport"} <= peers
    assert len({(point.peer, point.command, point.shape) for point in POINTS}) == len(POINTS)


@pytest.mark.parametrize(
    ("peer", "command", "code", "message"),
    [
        ("onevm", "list vmz", 2, "did you mean vms?"),
        ("onevm show", "explain nobody", 1, "no VM has the id or name 'nobody'"),
        ("onevm show", "explain 0..2 99", 1, "no VM has the id or name '99'"),
        ("onehost", "host drain nowhere", 1, "no host has the id or name 'nowhere'"),
        ("squeue --format", "list vms -l NOTHING_AT_ALL", 2, "expected one of: ID, NAME"),
        ("squeue", "list vms --jsn", 2, "did you mean --json?"),
        ("sreport", "statement nobody", 1, "nobody"),
    ],
)
def test_mistakes_are_one_line_on_standard_error(
    peer: str, command: str, code: int, message: str, asked: Shell
) -> None:
    """With an exit code that is not 0, as with each peer."""
    del peer
    result = asked(*command.split())
    assert result.code == code, result
    assert message in result.err
    assert result.err.count("\n") == 1


def test_all_formats_have_the_same_rows(asked: Shell) -> None:
    """A script may change its format without other changes."""
    words = "list vms -l ID,NAME,STATE"
    from_json = [
        [str(value) for value in row.values()] for row in json.loads(asked.ok(f"{words} -j").out)
    ]
    from_csv = list(csv.reader(io.StringIO(asked.ok(f"{words} --csv --no-header").out)))
    from_xml = [
        [field.text for field in row] for row in etree.fromstring(asked.ok(f"{words} -x").out)
    ]
    assert from_json == from_csv == from_xml

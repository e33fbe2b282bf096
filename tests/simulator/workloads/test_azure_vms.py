"""Azure's public VM tables are read, and errors name the numbers of broken lines."""

import gzip
from math import inf
from pathlib import Path

import pytest

from merkatd.cluster import VmKind
from simulator.baselines.placement.best_fit import BestFit
from simulator.kernel.data_center import DataCenter, tree_of_hosts
from simulator.kernel.kernel_deciders import PlacerDecider
from simulator.kernel.kernel_run import KernelRun
from simulator.workloads.azure_vms import AzureTableError, read_azure_vms

TABLE = """\
vm-a,sub-1,dep-1,600,4200,95.5,40.0,90.1,Delay-insensitive,2,3.5
vm-b,sub-2,dep-2,0,2592000,20,5,15,Interactive,4,32

vm-c,sub-1,dep-1,600,600,99.9,100,99.9,Unknown,>24,>64
"""
TRACE_END_S = 2_592_000.0


def table(folder: Path, text: str = TABLE) -> Path:
    """Write a table."""
    path = folder / "vmtable.csv"
    path.write_text(text)
    return path


def test_a_table(tmp_path: Path) -> None:
    """VMs come by creation; buckets count as their bounds, and a VM of the end never ends."""
    read = read_azure_vms(table(tmp_path), trace_end_s=TRACE_END_S)
    assert read.arrival_s.tolist() == [0.0, 600.0, 600.0]
    assert read.lifetime_s.tolist() == [inf, 3600.0, 300.0]
    assert read.size.tolist() == [[400.0, 32768.0], [200.0, 3584.0], [2400.0, 65536.0]]
    assert read.kind.tolist() == [VmKind.SERVICE, VmKind.BATCH, VmKind.SERVICE]
    assert read.level.tolist() == [0.05, 0.4, 1.0]
    assert read.owner.tolist() == [0, 1, 1]
    assert read_azure_vms(table(tmp_path)).lifetime_s[0] == TRACE_END_S


def test_the_first_lines_of_a_packed_table(tmp_path: Path) -> None:
    """Azure publishes them packed; `most` reads a part."""
    path = tmp_path / "vmtable.csv.gz"
    with gzip.open(path, "wt") as file:
        file.write(TABLE)
    assert len(read_azure_vms(path)) == 3
    assert read_azure_vms(path, most=1).arrival_s.tolist() == [600.0]
    assert len(read_azure_vms(path, most=0)) == 0


def test_a_table_runs_in_the_kernel(tmp_path: Path) -> None:
    """All of it is placed, and the job ends."""
    center = DataCenter(hosts=tree_of_hosts((3,), [4800.0, 131_072.0]))
    asked = read_azure_vms(table(tmp_path), trace_end_s=TRACE_END_S)
    outcome = KernelRun(center, asked, PlacerDecider(BestFit()), span_s=7200.0).run()
    assert outcome.last("running") == 1
    assert outcome.last("ended") == 2


GOOD = "vm,sub,dep,0,600,1,2,3,Unknown,2,4"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("vm,sub,dep", r"a VM must have 11 columns \(got 3\)"),
        (GOOD + ",9", r"a VM must have 11 columns \(got 12\)"),
        (
            GOOD.replace(",0,600,", ",x,600,"),
            r"the time of creation must be a number at least 0 \(got 'x'\)",
        ),
        (
            GOOD.replace(",0,600,", ",700,600,"),
            r"the time of deletion must not be before the creation at 700 \(got 600\)",
        ),
        (
            GOOD.replace(",1,2,3,", ",1,200,3,"),
            r"the mean CPU use must be a number from 0 to 100 \(got '200'\)",
        ),
        (
            GOOD.replace("Unknown", "Batch"),
            r"category must be Delay-insensitive, Interactive or Unknown \(got 'Batch'\)",
        ),
        (GOOD.replace(",2,4", ",0,4"), r"the number of cores must be a number from 0.001"),
        (GOOD.replace(",2,4", ",2,nan"), r"the memory must be a number from .* \(got 'nan'\)"),
        (GOOD.replace(",0,600,", ",-5,600,"), r"number at least 0 \(got '-5'\)"),
    ],
)
def test_broken_lines_are_reported(tmp_path: Path, line: str, message: str) -> None:
    """With the file, the line, the value and what is accepted."""
    path = table(tmp_path, TABLE + line + "\n")
    with pytest.raises(AzureTableError, match=rf"vmtable\.csv:5: .*{message}"):
        read_azure_vms(path)


def test_what_is_no_table_is_reported(tmp_path: Path) -> None:
    """A missing file, a folder, bytes that are no text, and a file that is not packed."""
    with pytest.raises(AzureTableError, match="No such file"):
        read_azure_vms(tmp_path / "none.csv")
    with pytest.raises(AzureTableError, match="Is a directory"):
        read_azure_vms(tmp_path)
    (tmp_path / "vmtable.csv.gz").write_bytes(b"no gzip")
    with pytest.raises(AzureTableError, match="gz: "):
        read_azure_vms(tmp_path / "vmtable.csv.gz")
    (tmp_path / "bytes.csv").write_bytes(TABLE.encode() + b"\xff\xfe\x00")
    with pytest.raises(AzureTableError, match=r"bytes\.csv:5: a VM must have 11 columns"):
        read_azure_vms(tmp_path / "bytes.csv")


def test_an_open_quote_is_reported_where_it_opens(tmp_path: Path) -> None:
    """The reader looks for its end in all lines that follow."""
    path = table(tmp_path, f'{TABLE}"{GOOD}\n{GOOD}\n{GOOD}\n')
    with pytest.raises(AzureTableError, match=r"vmtable\.csv:5: a VM must have 11 columns"):
        read_azure_vms(path)

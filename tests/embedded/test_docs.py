"""The examples in the documentation run."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from merkatd.embedded import cloud_file
from merkatd.embedded.machines.faults import FaultKind
from merkatd.embedded.methods.call import METHODS
from tests.embedded.process import ROOT, remote
from tests.embedded.support import Bench

if TYPE_CHECKING:
    from pathlib import Path

PAGE = (ROOT / "docs" / "embedded.md").read_text()


def blocks(language: str) -> list[str]:
    """Return the code blocks of a language."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_program_runs() -> None:
    """The example program creates a cloud of three hosts."""
    names: dict[str, Any] = {}
    exec(blocks("python")[0], names)  # noqa: S102 - our own page
    assert len(names["cloud"].world.hosts) == 3


def test_the_call_lets_a_domain_fail() -> None:
    """The example of a call fits a new cloud with the default password."""
    with remote("--hosts", "3", "--password", "opennebula") as cloud:
        block = blocks("python")[1].replace("http://127.0.0.1:2633/RPC2", cloud.endpoint)
        printed: list[object] = []
        exec(block, {"print": printed.append})  # noqa: S102 - our own page
        assert printed == [[True, [0, 1, 2], 0]]


def test_the_file_describes_a_cloud(tmp_path: Path) -> None:
    """The example file is accepted."""
    path = tmp_path / "cloud.toml"
    path.write_text(blocks("toml")[0])
    bench = Bench(0)
    cloud_file.build(bench.cloud, cloud_file.read(path))
    assert len(bench.cloud.world.hosts) == 4


def test_named_methods_and_faults_exist() -> None:
    """The page names existing calls and kinds of faults."""
    for name in set(re.findall(r"embedded\.(?:limits|guest|fault|host|domain)\.[a-z]+", PAGE)):
        assert name in METHODS
    assert all(f"`{kind.value}`" in PAGE for kind in FaultKind)

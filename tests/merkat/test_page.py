"""docs/merkat.md: its steps run as they stand, in order; its table has every command."""

import re

from merkat.cli import COMMANDS
from tests.docs.pages import ROOT, blocks
from tests.merkat.shell import TenantShell
from tests.onegroup.site import ANN, Site, until

PAGE = ROOT / "docs" / "merkat.md"


def test_its_steps_run_as_they_stand(site: Site, shell: TenantShell) -> None:
    """From the settings file to the statement, with the page's own template."""
    text = PAGE.read_text(encoding="utf-8")
    (settings,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    endpoint = re.sub(r"https://[^\"]*", site.endpoint, settings.splitlines()[0])
    shell.settings(f"{endpoint}\n")
    (template,) = re.findall(r"```\n(CPU.*?)```", text, re.DOTALL)
    (shell.folder / "vm.template").write_text(template)
    steps = [
        command
        for block in blocks(PAGE)
        for command in block.commands
        if command.startswith("merkat ")
    ]
    assert len(steps) > 10
    vms = []
    for step in steps:
        output = shell.ok(step.removeprefix("merkat "))
        assert output
        if " vm create " in step:
            vms.append(int(output.removeprefix("ID: ")))
            until(lambda: _runs(shell, vms[-1]), "the VM runs")
    assert vms
    until(lambda: ("first", 4) in _bids(shell), "the last bid in force")
    for vm in vms:
        site.terminate(ANN, vm)


def _runs(shell: TenantShell, vm: int) -> bool:
    states = {row["id"]: row["state"] for row in shell.json("list vms")}
    return states.get(vm) == "RUNNING"


def _bids(shell: TenantShell) -> list[tuple[str, float]]:
    return [(row["name"], row["bid_cpu"]) for row in shell.json("list vms")]


def test_its_table_has_every_command() -> None:
    """No command is missing."""
    table = PAGE.read_text(encoding="utf-8").partition("## All commands")[2]
    assert {command for command in COMMANDS if f"`merkat {command}" in table} == set(COMMANDS)

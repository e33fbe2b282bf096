"""`merkat` prints what `merkatd` prints: the same words, tables, formats and exit codes."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from merkatd import cli
from tests.commands.asking import Shell
from tests.merkat.shell import TenantShell
from tests.onegroup.site import Site

SHOWN = (
    "price",
    "price --history 5",
    "list hosts",
    "list vms",
    "list vms --filter NAME=a --list ID,BID_CPU,COST",
    "list applications",
    "explain 0",
    "explain b",
    "bid 1",
    "quote 0 --cpu 4",
    "quote a --want-cpu 50 --memory 2",
    "quote --cpu 3 --most-cpu 100 --least-memory 256",
    "log",
    "log --vm a --kind deploy --since 2d",
    "log --host 0 --limit 3",
    "budget --tenant ann",
    "statement {ann}",
    "statement ann --month 2020-01",
    "report ann",
    "report ann --months 2",
    "share ann",
    "order list",
    "order book",
    "platform list --tenant ann",
)
FORMS = ("", "--csv", "--xml", "--no-header")


@pytest.fixture(scope="module", autouse=True)
def _paused(site: Site) -> Iterator[None]:
    """Decide nothing, so that both commands see the same period."""
    site.pause()
    yield
    site.resume()


def known(value: Any) -> Any:
    """Return JSON without null: XML-RPC does not say which goods are not sold."""
    if isinstance(value, dict):
        return {name: known(inner) for name, inner in value.items() if inner is not None}
    return [known(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize("words", SHOWN)
def test_an_administrator_sees_the_same_by_both_commands(
    words: str, site: Site, shell: TenantShell, capsys: pytest.CaptureFixture[str]
) -> None:
    """In each format; in JSON, values may be null or missing."""
    shell.login(site.admin)
    words = words.format(ann=site.users["ann"])
    own = f"--config {site.folder / 'merkatd.toml'}"
    for form in FORMS:
        expected = Shell(capsys)(*f"{words} {form} {own}".split())
        assert expected.code == 0, expected
        shown = shell(f"{words} {form}")
        assert (shown.code, shown.out) == (0, expected.out)
        assert shown.err == expected.err.replace("merkatd", "merkat")
    expected = Shell(capsys)(*f"{words} --json {own}".split())
    assert known(shell.json(words)) == known(json.loads(expected.out))


def test_quotes_of_limit_orders_are_the_same_but_for_the_time(
    site: Site, shell: TenantShell, capsys: pytest.CaptureFixture[str]
) -> None:
    """The recorded past grows between the two calls."""
    shell.login(site.admin)
    words = "order quote --cpu 100 --memory 256 --work 1h --within 4h --limit 7"
    own = f"--json --config {site.folder / 'merkatd.toml'}"
    expected = json.loads(Shell(capsys)(*f"{words} {own}".split()).out)
    answer = shell.json(words)
    for grows in ("history_s", "windows", "why"):
        assert answer.pop(grows)
        del expected[grows]
    for of_an_hour in ("part", "stops_per_day"):  # once the past covers an hour
        answer.pop(of_an_hour, None)
        expected.pop(of_an_hour, None)
    assert known(answer) == known(expected)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("order set", 2),
        ("platform list --watch", 2),
        ("list vms --filter ID=x", 2),
        ("list vms --list NOTHING", 2),
        ("budget --amount 4", 2),
        ("price --market nowhere", 1),
        ("explain nobody", 1),
        ("statement nobody", 1),
        ("platform show 99", 1),
        ("order delete 99", 1),
        ("nothing", 2),
        ("price --historie 4", 2),
    ],
)
def test_mistakes_have_the_same_exit_codes(
    words: str, code: int, site: Site, shell: TenantShell, capsys: pytest.CaptureFixture[str]
) -> None:
    """And one line, which names the command that was called."""
    shell.login(site.admin)
    line = shell.refused(words, code)
    assert "merkatd" not in line
    own = ["--config", str(site.folder / "merkatd.toml")]
    assert Shell(capsys)(*words.split(), *own).code == code


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_help_names_the_command_that_was_called(command: str, shell: TenantShell) -> None:
    """A tenant can type every command as its help shows it."""
    result = shell(f"{command} --help")
    if result.code == 0:
        assert "merkatd" not in result.out
        assert f"merkat {command}" in result.out


def test_the_manual_and_the_completion_are_of_this_command(shell: TenantShell) -> None:
    """Each has the commands of tenants."""
    assert "merkat\\-price(1)" in shell.ok("manual")
    assert "BIDS" in shell.ok("manual explain")
    assert "_merkat_VM" in shell.ok("completion bash")
    assert "expected one of" in shell.refused("manual nothing", 2)


def test_top_shows_the_same_frame(
    site: Site, shell: TenantShell, capsys: pytest.CaptureFixture[str]
) -> None:
    """But for the head, whose figures of the daemon are for administrators."""
    shell.login(site.admin)
    own = f"top --once --config {site.folder / 'merkatd.toml'}"
    head, *expected = Shell(capsys)(*own.split()).lines
    title, *shown = shell.ok("top --once").splitlines()
    assert shown == expected
    assert head.startswith("merkatd  period")
    assert title.startswith("merkat  period")
    assert shell.json("top")["status"]["mode"] == "on"

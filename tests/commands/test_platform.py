"""`merkatd platform`: its questions and its output."""

import getpass
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from merkatd.opennebula import Client
from merkatd.protocol.platform_messages import ProgressReport
from tests.commands.asking import Daemon, Shell
from tests.platforms.queues import Queues, patient
from tests.platforms.site import Site, template
from tests.platforms.test_declarations import JOB
from tests.scheduler.frontend import SESSION
from tests.served import questions_at


class Platforms(Daemon):
    """A daemon with platforms that answers like one behind a socket."""

    def __init__(self, site: Site | None = None) -> None:
        self.site = site or Site()
        self.frontend = self.site
        scheduler = self.site.scheduler
        client = Client(self.site.transport, SESSION, self.site.clock)
        self.questions = questions_at(scheduler, self.site.manager, client.call)

    def numbers(self) -> list[int]:
        """Return the numbers of all platforms, oldest first."""
        return [row["id"] for row in self.answer("platforms")]


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Iterator[Platforms]:
    """Yield such a daemon; commands use it."""
    made = Platforms()
    monkeypatch.setattr("merkatd.commands.socket_door.ask", made.ask)
    yield made
    made.site.close()


@pytest.fixture
def template_file(tmp_path: Path) -> Path:
    """Return a template with a deadline."""
    path = tmp_path / "weather.toml"
    path.write_text(template(slo='[slo]\ndeadline = "6h"\nideal_run = "2h"'))
    return path


@pytest.fixture
def patient_daemon(monkeypatch: pytest.MonkeyPatch) -> Iterator[Platforms]:
    """Yield a daemon whose market has limit orders."""
    made = Platforms(Queues())
    monkeypatch.setattr("merkatd.commands.socket_door.ask", made.ask)
    yield made
    made.site.close()


@pytest.fixture
def patient_file(tmp_path: Path) -> Path:
    """Return the template of a patient platform."""
    path = tmp_path / "patient.toml"
    path.write_text(patient())
    return path


class TestPlatform:
    def test_a_platform_is_submitted_and_shown(
        self, daemon: Platforms, shell: Shell, template_file: Path
    ) -> None:
        """The page has progress, margin, spent and remaining credits, price and actions."""
        assert "is submitted" in shell.ok(f"platform submit {template_file} --tenant ann").out
        (number,) = daemon.numbers()
        daemon.period(5)
        end_s = daemon.site.platform(number).deadline_s or 0.0
        daemon.site.act(
            number, ProgressReport(projected_end_s=end_s - 1800, done=0.25, text="going well")
        )
        output = shell.ok(f"platform show {number}").out
        assert "is running" in output
        assert "On track: expected to end 30 min before its deadline" in output
        assert "25.0% of its work is done" in output
        assert "Spent" in output
        assert "Prices per period in market default now: a core " in output
        assert "The most that its VMs can use costs " in output
        assert "VM 0 in nodes: running, gets 200 % of a core" in output
        assert "manager: starting: its conditions are met" in output
        name = f"weather-{number}"
        assert any(line.startswith(f"{name} ") for line in shell.ok("list applications").lines)
        assert shell.ok(f"budget {name}").lines[1].startswith(f"{name} ")
        assert shell.ok(f"budget {number}").lines[1].startswith(f"{name} ")
        row = json.loads(shell.ok("platform list --json").out)[0]
        assert (row["name"], row["state"], row["vms"]) == ("weather", "running", 2)

    def test_a_declared_application_is_shown(
        self, daemon: Platforms, shell: Shell, tmp_path: Path
    ) -> None:
        """One sentence has the declaration and its state; others have none."""
        for name, declared in (("job", JOB), ("plain", "")):
            (tmp_path / name).write_text(template(declared=declared))
            shell.ok(f"platform submit {tmp_path / name} --tenant ann")
        job, plain = daemon.numbers()
        output = " ".join(shell.ok(f"platform show {job}").out.split())
        assert "Declared job: 1800 core-seconds in 2 stages, goal 1970-01-12T15:46:40Z;" in output
        assert "no VM of it exists yet." in output
        assert "Declared" not in shell.ok(f"platform show {plain}").out

    def test_orders_are_executed(
        self, daemon: Platforms, shell: Shell, template_file: Path
    ) -> None:
        """A platform is changed, suspended, resumed and stopped."""
        shell.ok(f"platform submit {template_file} --tenant ann")
        (number,) = daemon.numbers()
        daemon.period(4)
        shell.ok(f"platform update {number} --budget 60000 --deadline 9h")
        assert daemon.answer("platform", platform=number)["budget"] == 60_000
        assert "suspending" in shell.ok(f"platform suspend {number}").out
        daemon.period(3)
        page = shell.ok(f"platform show {number}").out
        assert "`merkatd platform resume` continues it" in page
        assert "its tenant suspended it" not in page.lower()
        assert f"{getpass.getuser()} suspended it" in page
        assert "resuming" in shell.ok(f"platform resume {number}").out
        daemon.period(3)
        assert "stopping" in shell.ok(f"platform stop {number}").out
        daemon.period(3)
        assert "is cancelled" in shell.ok(f"platform show {number}").out

    def test_an_impossible_deadline_names_the_least_possible_one(
        self, daemon: Platforms, shell: Shell, template_file: Path
    ) -> None:
        """The list shows what the platform needs."""
        template_file.write_text(template(slo='[slo]\ndeadline = "1h"\nideal_run = "2h"'))
        shell.ok(f"platform submit {template_file} --tenant ann")
        (number,) = daemon.numbers()
        daemon.period(1)
        output = shell.ok("platform list --list NAME,STATE,NEEDS").out
        assert "cancelled" in output
        assert "the least deadline that could be met" in output
        shown = shell.ok(f"platform show {number}").out
        assert "It would have needed: the least deadline that could be met is" in shown
        assert "the rest returned to its tenant" in shown

    @pytest.mark.parametrize(
        ("words", "code", "message"),
        [
            ("platform submit x.toml", 2, "submit needs --tenant TENANT"),
            ("platform show", 2, "expected: merkatd platform show ID"),
            ("platform list 3", 2, "expected: merkatd platform list"),
            ("platform update 1", 2, "update needs at least one"),
            ("platform stop 1 --budget 3", 2, "other verbs accept none"),
            ("platform show x", 2, "a whole number"),
            ("platform show 7", 1, "platform 7 does not exist"),
            ("platform submit /nowhere --tenant ann", 1, "No such file"),
            ("platform list --tenant nobody", 1, "no tenant has the id or name"),
        ],
    )
    def test_wrong_arguments_are_errors(
        self, daemon: Platforms, shell: Shell, words: str, code: int, message: str
    ) -> None:
        """The error is one line with the accepted values."""
        assert daemon.site.ann
        assert message in shell.refused(words, code)

    def test_an_invalid_template_is_an_error(
        self, daemon: Platforms, shell: Shell, template_file: Path
    ) -> None:
        """The error names the closest key."""
        assert daemon.site.ann
        template_file.write_text(template_file.read_text().replace("credits", "credit"))
        assert "did you mean 'credits'?" in shell.refused(
            f"platform submit {template_file} --tenant ann"
        )


class TestDryRun:
    def test_a_plan_shows_the_platforms_needs_without_effect(
        self, daemon: Platforms, shell: Shell, template_file: Path
    ) -> None:
        """VMs to be created have reasons, and no state changes."""
        shell.ok(f"platform submit {template_file} --tenant ann")
        (number,) = daemon.numbers()
        daemon.period(1)
        before = daemon.answer("platform", platform=number)
        output = shell.ok("plan").out
        assert f"create   a VM: platform {number} (weather) needs VM" in output
        assert daemon.answer("platform", platform=number) == before
        assert daemon.site.members(number) == ()
        assert daemon.site.alive() == []


class TestPlatformQuote:
    def test_a_template_is_quoted_before_its_submission(
        self, patient_daemon: Platforms, shell: Shell, patient_file: Path
    ) -> None:
        """The lines have the limit that it would state, and the one that would start it."""
        patient_daemon.period(2)
        words = f"platform quote {patient_file} --tenant ann"
        first, second, third = shell.ok(words).lines
        assert re.fullmatch(r"The platform would state a limit of [0-9.,]+ now\.", first)
        assert re.fullmatch(
            r"New VMs \(300 % CPU, 3,072 MiB\) would start together now with a limit of [0-9.]+"
            r" credits a period\.",
            second,
        )
        assert third.startswith("Too little is known: the recorded past covers 0 s")
        answer = json.loads(shell.ok(f"{words} -j").out)
        text = patient_file.read_text()
        assert answer == patient_daemon.answer("platform_quote", tenant="ann", template=text)
        listed = shell("platform", "list")
        assert listed.out.count("weather") == 0
        assert "`merkatd platform submit FILE`" in listed.err

    def test_what_can_not_be_quoted_is_refused(
        self, daemon: Platforms, shell: Shell, template_file: Path
    ) -> None:
        """The line says what is missing, or which controller is accepted."""
        daemon.period(1)
        refused = shell.refused(f"platform quote {template_file} --tenant ann")
        assert "controller must be patient for a quote (got 'notes')" in refused
        assert "quote needs --tenant TENANT" in shell.refused(f"platform quote {template_file}", 2)
        assert "expected: merkatd platform quote FILE" in shell.refused("platform quote", 2)

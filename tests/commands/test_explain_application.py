"""`explain application`: the utility of an application, by its id or its name."""

from collections.abc import Iterator

import pytest

from merkatd.scheduler.base.settings import MarketRules
from tests.commands.asking import Shell
from tests.platforms.site import Site
from tests.scheduler.test_utility_cloud import HOST
from tests.service.interfaces import Interfaces
from tests.service.test_application_standings import late_applications


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> Iterator[Interfaces]:
    """Yield a daemon with applications that lack power; the commands ask it."""
    site = Site(hosts=1, size=HOST, markets=(MarketRules(strategy="utility"),))
    made = late_applications(site)

    def ask(_path: object, question: str, arguments: dict[str, object] | None = None) -> object:
        return made.control(question, **(arguments or {}))

    monkeypatch.setattr("merkatd.commands.socket_door.ask", ask)
    yield made
    site.close()


def test_it_is_explained_for_people_and_programs(
    late: Interfaces, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sentence and those that would have less; by id and by name; a VM has the same."""
    shell = Shell(capsys)
    first = next(row for row in late.control("applications") if row["name"].startswith("job-0"))
    by_name = shell("explain", "application", first["name"])
    assert by_name.code == 0
    assert "has a utility of" in by_name.out
    assert "Would have less: " in by_name.out
    number = str(first["application"])
    assert shell("explain", "application", number).out == by_name.out
    rows = shell("explain", "application", number, "--csv", "-l", "ID,VMS").lines
    assert rows == ["ID,VMS", f"{number},1"]
    assert f"Application  {number} has a utility of" in shell("explain", "0").out


@pytest.mark.usefixtures("late")
def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """In one line."""
    refused = Shell(capsys)("explain", "application", "nothing")
    assert refused.code == 1
    assert refused.err == "merkatd explain: there is no application 'nothing' with VMs\n"

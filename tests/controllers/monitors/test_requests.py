"""The monitor of requests with real sshds and access logs."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.controllers.monitors.request_watch import KEYS, Watch
from tests.controllers.monitors.sshd import SSHD, Sshd, running
from tests.controllers.monitors.test_access_log import line

pytestmark = pytest.mark.skipif(SSHD is None, reason="there is no sshd")


@pytest.fixture(scope="module")
def sshds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Sshd]]:
    """Return two VMs that no test changes."""
    if SSHD is None:
        pytest.skip("there is no sshd")
    with running(tmp_path_factory.mktemp("sshd"), KEYS, 2) as servers:
        yield servers


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Return the path of a log that both VMs have, as they are one machine."""
    return tmp_path / "access.log"


@pytest.fixture
def watch(log: Path, sshds: list[Sshd]) -> Iterator[Watch]:
    """Return a monitor of two VMs after its first look."""
    log.write_text(line() * 3)
    watch = Watch(log.parent, sshds, 2, source="nginx", log=str(log))
    assert watch.look() == {"answering": 2.0}
    yield watch
    watch.probe.close()


def test_rates_and_times_of_all_vms_are_reported(watch: Watch, log: Path) -> None:
    """Requests of all VMs together, over the window."""
    with log.open("a") as file:
        file.write(line("0.100") * 98 + line("4.000") * 2 + line("0.001", status=503) * 100)
    values = watch.look()
    assert values["arrivals_per_s"] == values["throughput_per_s"] == 2 * 200 / 20.0
    assert values["failures_per_s"] == 2 * 100 / 20.0
    assert values["response_s"] == pytest.approx(0.178)
    assert values["response_p50_s"] == pytest.approx(0.1, rel=0.005)
    assert values["response_p95_s"] == pytest.approx(0.1, rel=0.005)
    assert values["response_p99_s"] == pytest.approx(4.0, rel=0.005)
    assert values["unread_per_s"] == 0.0
    assert watch.look()["arrivals_per_s"] == 2 * 200 / 40.0
    watch.look()
    values = watch.look()
    assert values["arrivals_per_s"] == 0.0
    assert "response_s" not in values


def test_a_clock_that_jumps_changes_no_rate(watch: Watch, log: Path) -> None:
    """Rates follow the clock that never jumps."""
    for jump_s in (-86_400.0, 86_400.0):
        watch.now_s += jump_s
        with log.open("a") as file:
            file.write(line() * 100)
        assert watch.look()["arrivals_per_s"] == pytest.approx(2 * 5.0)


def test_a_vm_that_misses_a_look_is_counted_in_full(watch: Watch, log: Path) -> None:
    """Its requests meanwhile count over the whole time since its last look."""
    known = watch.daemon.vms
    with log.open("a") as file:
        file.write(line() * 100)
    watch.daemon.vms = [known[0], replace(known[1], key="key-9")]
    values = watch.look()
    assert (values["arrivals_per_s"], values["answering"]) == (5.0, 1.0)
    with log.open("a") as file:
        file.write(line() * 100)
    watch.daemon.vms = known
    values = watch.look()
    assert (values["arrivals_per_s"], values["answering"]) == (5.0 + 200 / 40.0, 2.0)


def test_a_vm_that_was_away_begins_anew(watch: Watch, log: Path) -> None:
    """The time in which it was suspended is not part of a rate."""
    known = watch.daemon.vms
    watch.daemon.vms = [replace(known[0], state="suspended"), known[1]]
    watch.look()
    with log.open("a") as file:
        file.write(line() * 100)
    watch.daemon.vms = known
    assert watch.look()["arrivals_per_s"] == pytest.approx(100 / 40.0)


def test_a_missing_log_is_no_idle_proxy(watch: Watch, log: Path) -> None:
    """Nothing is reported, rather than zero."""
    log.unlink()
    assert watch.look() == {"answering": 2.0}
    log.write_text(line() * 50)
    assert watch.look() == {"answering": 2.0}
    with log.open("a") as file:
        file.write(line() * 50)
    assert watch.look()["arrivals_per_s"] == 2 * 50 / 20.0


def test_vms_that_never_answer_are_reported(watch: Watch) -> None:
    """A restarted monitor remembers which VMs have answered."""
    watch.daemon.vms = [*watch.daemon.vms, replace(watch.daemon.vms[0], vm=3, key="key-3")]
    assert watch.look()["absent/3"] == 0.0
    assert watch.look()["absent/3"] == 20.0
    watch.probe.close()
    watch.start()
    values = watch.look()
    assert (values["absent/3"], values["answering"]) == (40.0, 2.0)
    assert watch.daemon.vms
    watch.daemon.silent = True
    assert watch.look() == {}

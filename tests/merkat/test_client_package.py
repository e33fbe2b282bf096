"""The tenants' package: without the daemon's libraries, and complete."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from merkat.cli import COMMANDS
from onegroup.cli import VERBS
from tests.docs.pages import ROOT
from tests.onegroup.site import ANN, TEMPLATE, Site

HEAVY = ("numpy", "sqlalchemy", "twisted", "lxml", "alembic", "re2", "zmq")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the wheel and the Debian package."""
    folder = tmp_path_factory.mktemp("dist")
    if shutil.which("dpkg-deb") is None:
        pytest.skip("builds a Debian package")
    build: list[str | Path] = [ROOT / "packaging" / "build-client", sys.executable, folder]
    subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
    return folder


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the root folder in which the Debian package is unpacked."""
    root = tmp_path_factory.mktemp("root")
    (package,) = built.glob("merkat-client_*_all.deb")
    subprocess.run(["dpkg-deb", "--extract", package, root], check=True)
    return root


class Machine:
    """A tenant's machine: an interpreter with the standard library and the package alone."""

    def __init__(self, root: Path, home: Path, endpoint: str) -> None:
        self._program = root / "usr" / "bin" / "merkat"
        self._home = home
        (home / ".one").mkdir()
        (home / ".one" / "one_auth").write_text(f"{ANN}\n")
        (home / "vm.template").write_text(TEMPLATE)
        self._environment = {"HOME": str(home), "PATH": os.defpath, "MERKAT_ENDPOINT": endpoint}

    def __call__(self, *words: str) -> str:
        """Return the output of a command that must succeed."""
        done = subprocess.run(
            [sys.executable, "-I", "-B", "-S", self._program, *words],
            capture_output=True,
            text=True,
            check=False,
            cwd=self._home,
            env=self._environment,
        )
        assert (done.returncode, done.stderr) == (0, ""), (words, done)
        return done.stdout


@pytest.fixture
def machine(installed: Path, tmp_path: Path, site: Site) -> Machine:
    """Return a machine of Ann's."""
    return Machine(installed, tmp_path, site.endpoint)


def test_none_of_the_daemons_libraries_is_there(tmp_path: Path) -> None:
    """The interpreter of these tests can't import them."""
    for name in HEAVY:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", f"import {name}"],
            capture_output=True,
            check=False,
            cwd=tmp_path,
        )
        assert b"ModuleNotFoundError" in done.stderr


def test_every_command_has_its_help(machine: Machine) -> None:
    """And a manual page; so no module is missing."""
    assert machine("--version").startswith("merkat 0")
    assert all(command in machine("--help") for command in COMMANDS)
    for command in COMMANDS:
        assert f"merkat {command}" in machine(command, "--help")
        assert machine("manual", command).startswith(".TH")
    for verb in set(VERBS) - {"manual", "completion"}:
        assert f"merkat group {verb}" in machine("group", verb, "--help")
    assert "_merkat_VM" in machine("completion", "bash")


def test_commands_work_against_a_daemon(machine: Machine, site: Site) -> None:
    """Reading, quoting, bidding and creating."""
    assert "cpu" in machine("price")
    assert "a" in machine("list", "vms", "--csv", "--list", "NAME").split()
    for words in (
        "list hosts",
        "list applications",
        "quote 0 --cpu 4",
        "bid 0",
        "explain 0",
        "log",
        "top --once",
        "budget",
        "statement",
        "order list --csv",
        "platform list --csv",
        "group list --csv",
    ):
        assert machine(*words.split())
    vm = int(machine("vm", "create", "vm.template", "--cpu", "1").removeprefix("ID: "))
    site.terminate(ANN, vm)


def test_the_package_has_the_command_its_manual_and_its_completion(installed: Path) -> None:
    """And nothing of the daemon that the command does not import."""
    files = {file.relative_to(installed).as_posix() for file in installed.rglob("*")}
    expected = {"usr/bin/merkat", "usr/share/bash-completion/completions/merkat"}
    expected |= {f"usr/share/man/man1/merkat-{command}.1.gz" for command in COMMANDS}
    assert expected | {"usr/share/zsh/vendor-completions/_merkat"} <= files
    modules = {file for file in files if file.startswith("usr/lib/merkat-client/merkatd/")}
    assert not [file for file in modules if "/daemon/" in file or "/scheduler/" in file]
    assert not [file for file in modules if "__pycache__" in file]


def test_the_wheel_lists_its_files(built: Path) -> None:
    """As pip checks them; its command is `merkat`, and it needs shtab alone."""
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        about = next(name for name in names if name.endswith("/METADATA")).rpartition("/")[0]
        listed = [line.split(",")[0] for line in _text(archive, f"{about}/RECORD").splitlines()]
        assert sorted(listed) == sorted(names)
        assert "merkat = merkat.cli:main" in _text(archive, f"{about}/entry_points.txt")
        needed = [
            line
            for line in _text(archive, f"{about}/METADATA").splitlines()
            if line.startswith("Requires-Dist")
        ]
    assert len(needed) == 1
    assert needed[0].startswith("Requires-Dist: shtab")


def test_pip_installs_the_wheel(built: Path, tmp_path: Path) -> None:
    """With its command."""
    (wheel,) = built.glob("*.whl")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*pip, "--target", tmp_path, wheel], check=True)
    assert (tmp_path / "bin" / "merkat").exists()


def _text(archive: zipfile.ZipFile, name: str) -> str:
    return archive.read(name).decode()

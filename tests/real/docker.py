"""The tests' own Docker daemon, in their namespaces: its images and containers end with it."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.real import controls
from tests.real.host import ROOT, until

BASE = "merkat-testbed-base"
_PROJECT = "testbed"
_GONE = "No such container"
_MOST_SAID = 4000
_PATIENCE_S = 240.0
"""The time limit of a command; the longest command builds all images."""


class Docker:
    """A Docker daemon that runs until it is closed."""

    def __init__(self, directory: Path) -> None:
        """The directory contains all files of the daemon."""
        _leave_other_control_groups()
        # If Docker itself has to switch on forwarding, it forbids forwarding for all others:
        # hosts on the bridge would lose each other.
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        self._address = f"unix://{directory}/docker.sock"
        self._log = directory / "dockerd.log"
        with self._log.open("wb") as log:
            self._daemon = subprocess.Popen(
                [
                    *("dockerd", "--host", self._address, "--data-root", f"{directory}/data"),
                    *("--exec-root", f"{directory}/exec", "--pidfile", f"{directory}/pid"),
                    *("--cgroup-parent", f"/{os.environ['MERKAT_REAL_GROUP']}/docker"),
                    *("--exec-opt", "native.cgroupdriver=cgroupfs"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        until(self._answers, "dockerd answers", patience_s=_PATIENCE_S)

    def run(self, *words: str) -> str:
        """Return the output of a Docker command."""
        return self._run("docker", *words)

    def compose(self, *words: str, profiles: tuple[str, ...] = ("embedded",)) -> str:
        """Return the output of docker-compose with the project's own file."""
        chosen = [word for profile in profiles for word in ("--profile", profile)]
        return self._run("docker-compose", *chosen, *words)

    def shell(self, command: str) -> str:
        """Return the output of a command line in the checkout."""
        return self._run("bash", "-c", command)

    def screen(self, command: str, key: bytes, log: Path) -> bytes:
        """Return what a command line shows on a terminal until a key ends it."""
        with (
            log.open("wb") as out,
            subprocess.Popen(
                ["script", "-qefc", command, "/dev/null"],
                cwd=ROOT,
                env=self._environment() | {"TERM": "linux"},
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=out,
                bufsize=0,
            ) as begun,
        ):
            try:
                until(log.read_bytes, f"{command} shows something")
                # A key that is pressed before the command listens is lost.
                until(lambda: _ends(begun, key), f"{command} ends")
            finally:
                begun.kill()
            assert begun.returncode == 0, log.read_text(errors="replace")
        return log.read_bytes()

    def begin(self, command: str, log: Path) -> subprocess.Popen[bytes]:
        """Start a command line that continues to run."""
        with log.open("wb") as out:
            return subprocess.Popen(
                ["bash", "-c", f"exec env {command}"],
                cwd=ROOT,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )

    def inside(self, service: str, *words: str) -> str:
        """Return the output of a command in a service's container."""
        return self.compose("exec", "-T", service, *words)

    def copy(self, file: Path, service: str, path: str) -> None:
        """Copy a file into a service's container."""
        container = self.compose("ps", "--quiet", service, profiles=("embedded", "opennebula"))
        self.run("cp", str(file), f"{container.strip()}:{path}")

    def address(self, service: str) -> str:
        """Return the address of a service's container."""
        container = self.compose("ps", "--quiet", service, profiles=("embedded", "opennebula"))
        shown = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
        return self.run("inspect", "--format", shown, container.strip()).strip()

    def health(self, service: str) -> str:
        """Return the result of a service's own health check; empty before the service exists."""
        shown = "{{with .State.Health}}{{.Status}}{{end}}"
        try:
            container = self.compose("ps", "--quiet", service).strip()
            return self.run("inspect", "--format", shown, container).strip() if container else ""
        except AssertionError as error:
            # A container of a build may end between its listing and the look at it.
            if _GONE in str(error):
                return ""
            raise

    def close(self) -> None:
        """End all containers, then the daemon."""
        with contextlib.suppress(AssertionError):
            self.compose("down", "--timeout", "5", "--volumes", profiles=("embedded", "opennebula"))
        self._daemon.terminate()
        try:
            self._daemon.wait(30.0)
        except subprocess.TimeoutExpired:
            self._daemon.kill()
            self._daemon.wait()

    def _answers(self) -> bool:
        assert self._daemon.poll() is None, self._log.read_text()
        done = subprocess.run(
            ["docker", "info"], env=self._environment(), capture_output=True, check=False
        )
        return done.returncode == 0

    def _run(self, *words: str) -> str:
        done = subprocess.run(
            words,
            cwd=ROOT,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
        )
        output = done.stdout + done.stderr
        assert done.returncode == 0, f"{' '.join(words)}: {output[-_MOST_SAID:]}"
        return done.stdout

    def _environment(self) -> dict[str, str]:
        return os.environ | {
            "BASE": BASE,
            "COMPOSE_PROJECT_NAME": _PROJECT,
            "DOCKER_BUILDKIT": "0",
            "DOCKER_HOST": self._address,
        }


def _ends(begun: subprocess.Popen[bytes], key: bytes) -> bool:
    """Press the key once more; return whether the command has ended."""
    assert begun.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        begun.stdin.write(key)
    return begun.poll() is not None


@contextlib.contextmanager
def running(directory: Path, archive: Path) -> Iterator[Docker]:
    """Yield a daemon that has the Debian on which all images are based."""
    docker = Docker(directory)
    try:
        docker.run("import", str(archive), BASE)
        yield docker
    finally:
        docker.close()


def _leave_other_control_groups() -> None:
    """Unmount the trees of unused controllers, where nothing would remove Docker's groups."""
    if controls.unified():
        return
    for tree in controls.TOP.iterdir():
        if tree.is_mount() and tree.name not in controls.CONTROLLERS:
            subprocess.run(["umount", tree], check=True)

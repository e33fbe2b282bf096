"""Packages and archives for the tests, built with the network that the tests lack.

`dist/` has the Debian package, as `make deb` leaves it. An archive of a Debian with all packages of
the testbed's images is kept for the versions of the packages from which it was built.
"""

import functools
import hashlib
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.docs.walks import standing
from tests.real import packages
from tests.real.guest import versioned

ROOT = Path(__file__).parents[2]
CACHE = Path("~/.cache/merkat/testbed").expanduser()
SCRIPT = ROOT / "testbed/base-image"
EXTRAS = ("fast", "kvm", "mysql", "simulator")
_BUILT_WITH = "setuptools"
_STAMP = ROOT / "dist/made-of"
_SOURCES = (
    *("CHANGELOG.md", "LICENSE", "README.md", "dashboards", "docs", "etc", "packaging", "sql"),
    *("setup.cfg", "pyproject.toml", "systemd", "controllers", "merkatd", "onegroup", "simulator"),
)


def make(words: Sequence[str]) -> None:
    """Build everything that the tests named in pytest's arguments need."""
    named = [word for word in words if ".py" in word]
    for test, parts in _PARTS.items():
        if not named or any(test in word for word in named):
            for part in parts:
                part()


def package() -> Path:
    """Return the Debian package."""
    (path,) = (ROOT / "dist").glob("merkat_*.deb")
    return path


def debian() -> Path:
    """Return the archive of a Debian with the packages of all images."""
    (path,) = CACHE.glob("*.tar")
    return path


def wheels() -> Path:
    """Return the folder with wheels of Merkat, of all its extras, and of the build tools."""
    return CACHE / "wheels"


@functools.cache
def _package() -> None:
    """Build the package of the present sources."""
    made_of = _hash(path for name in _SOURCES for path in _files(ROOT / name))
    if not _STAMP.exists() or _STAMP.read_text() != made_of:
        packages.say("building the Debian package, which takes some minutes")
        for old in (ROOT / "dist").glob("merkat_*.deb"):
            old.unlink()
        packages.run("make", "-C", str(ROOT), *standing("install.md", "make deb").split()[1:])
        _STAMP.write_text(made_of)


@functools.cache
def _debian() -> None:
    wanted = sorted({package for file in dockerfiles() for package in packages_of(file)})
    text = SCRIPT.read_text() + " ".join(versioned(package) for package in wanted)
    archive = CACHE / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.tar"
    if not archive.exists():
        packages.say("building a Debian for the testbed, which takes some minutes")
        CACHE.mkdir(parents=True, exist_ok=True)
        for old in CACHE.glob("*.tar"):
            old.unlink()
        packages.run(str(SCRIPT), "-", str(archive))


@functools.cache
def _wheels() -> None:
    """Build the wheels that are missing, and always Merkat's own."""
    with tempfile.TemporaryDirectory() as place:
        for name in ("README.md", "LICENSE", *_SOURCES):
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, Path(place, name), dirs_exist_ok=True)
            else:
                shutil.copy(ROOT / name, place)
        pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--wheel-dir", str(wheels()))
        packages.run(*pip, _BUILT_WITH, f"{place}[{','.join(EXTRAS)}]")


def dockerfiles() -> list[Path]:
    """Return the Dockerfiles of the images that are built without a network."""
    return sorted(path for path in (ROOT / "testbed").glob("*/Dockerfile") if packages_of(path))


def packages_of(dockerfile: Path) -> list[str]:
    """Return the Debian packages that an image needs."""
    for line in dockerfile.read_text().splitlines():
        if line.startswith("ARG PACKAGES="):
            return shlex.split(line.partition("=")[2])[0].split()
    return []


def _files(path: Path) -> Iterable[Path]:
    if path.is_file():
        return [path]
    return sorted(
        path
        for path in path.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and "machine_code_" not in path.name
    )


def _hash(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.relative_to(ROOT)}\0".encode() + file.read_bytes())
    return digest.hexdigest()


_PARTS = {
    "test_package": (_package, _debian, _wheels),
    "test_tenant_machine": (_debian,),
    "test_testbed": (_package, _debian),
    "test_install": (_wheels,),
}
"""The parts that each test needs."""

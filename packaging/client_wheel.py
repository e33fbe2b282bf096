"""Write the wheel of the tenants' command `merkat`, with only the modules that it needs.

    python packaging/client_wheel.py FOLDER

The modules are found by importing every verb while the daemon's libraries can't be imported. The
same sources give the same wheel, byte for byte.
"""

import base64
import configparser
import hashlib
import importlib
import sys
import zipfile
from collections.abc import Iterator, Mapping
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
OURS = ("merkat", "merkatd", "onegroup")
ABSENT = frozenset({"alembic", "lxml", "numpy", "re2", "sqlalchemy", "twisted", "zmq"})
"""Libraries that tenants' machines need not have."""
_METADATA = """\
Metadata-Version: 2.1
Name: merkat-client
Version: {version}
Summary: The command merkat: prices, bids, VMs and credits of tenants of a private cloud
License: Apache-2.0
Requires-Python: >=3.11
Requires-Dist: {shtab}
"""
_WHEEL = "Wheel-Version: 1.0\nGenerator: merkat\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_COMMANDS = "[console_scripts]\nmerkat = merkat.cli:main\n"
_ALWAYS = (1980, 1, 1, 0, 0, 0)


class Absence(MetaPathFinder):
    """An importer for which some libraries are not installed."""

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> None:
        """Raise ImportError for these libraries."""
        del path, target
        if name.partition(".")[0] in ABSENT:
            raise ImportError(f"merkat must not import {name}", name=name)


def modules() -> Iterator[Path]:
    """Yield the files of all modules that the command can import."""
    sys.meta_path.insert(0, Absence())
    sys.path.insert(0, str(ROOT))
    importlib.import_module("merkat.cli").parser()
    for name, module in sorted(sys.modules.items()):
        if name.partition(".")[0] in OURS and module.__file__ is not None:
            yield Path(module.__file__)
    yield ROOT / "merkat" / "__main__.py"


def contents(version: str, shtab: str) -> Mapping[str, bytes]:
    """Return the wheel's files by path, without the list of them."""
    files = {file.relative_to(ROOT).as_posix(): file.read_bytes() for file in modules()}
    about = f"merkat_client-{version}.dist-info"
    return {
        **files,
        f"{about}/LICENSE": (ROOT / "LICENSE").read_bytes(),
        f"{about}/METADATA": _METADATA.format(version=version, shtab=shtab).encode(),
        f"{about}/WHEEL": _WHEEL.encode(),
        f"{about}/entry_points.txt": _COMMANDS.encode(),
    }


def write(folder: Path) -> Path:
    """Write the wheel, and return its path."""
    settings = configparser.ConfigParser(interpolation=None)
    settings.read(ROOT / "setup.cfg")
    version = settings["metadata"]["version"]
    needed = settings["options"]["install_requires"].split()
    files = contents(version, next(one for one in needed if one.startswith("shtab")))
    record = f"merkat_client-{version}.dist-info/RECORD"
    lines = [f"{name},{_digest(content)},{len(content)}" for name, content in files.items()]
    listed = "\n".join([*lines, f"{record},,", ""])
    wheel = folder / f"merkat_client-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in {**files, record: listed.encode()}.items():
            about = zipfile.ZipInfo(name, _ALWAYS)
            about.external_attr = 0o644 << 16
            archive.writestr(about, content, zipfile.ZIP_DEFLATED)
    return wheel


def _digest(content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
    return f"sha256={digest.decode()}"


if __name__ == "__main__":
    sys.stdout.write(f"{write(Path(sys.argv[1]))}\n")

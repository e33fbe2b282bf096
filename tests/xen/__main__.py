"""`make test-xen`: as `make test-real` does it, with a real Xen under software emulation."""

import sys
from pathlib import Path

from tests.real import __main__ as real
from tests.real import packages
from tests.xen import image

PACKAGES = {"mmdebstrap": "/usr/bin/mmdebstrap", "openssh-client": "/usr/bin/ssh"}


def main(words: list[str]) -> int:
    """The exit code of pytest; 2 where it could not be started, 3 where something is left."""
    return real.run(_prepare, [words or ["-s", str(Path(__file__).parent)]])


def _prepare() -> None:
    packages.install(PACKAGES)
    image.built()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

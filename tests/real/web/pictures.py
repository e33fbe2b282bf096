"""The pictures of the documentation: `python -m tests.real.web.pictures docs/pictures`.

A demo is played, and each screen looked at in a real Chromium at each width.
"""

import sys
import tempfile
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

from tests.real.web.chromium import Chromium
from tests.real.web.screens import IN_THE_DARK, SCREENS, WIDTHS, Screen, leave_screen, open_screen
from tests.real.web.sites import Shown, demo

_PERIOD = 27
"""When everybody has come."""
_COLOURS = (64, 40, 24, 16)
MOST_BYTES = 60_000


def small(picture: bytes) -> bytes:
    """The same with few colours, and with fewer where it is large all the same."""
    with Image.open(BytesIO(picture)) as opened:
        image = opened.convert("RGB")
    return next(one for one in map(partial(_reduced, image), _COLOURS) if len(one) <= MOST_BYTES)


def _reduced(image: Image.Image, colours: int) -> bytes:
    """With what there is much of, and what is far from all of that."""
    counted: Any = image.getcolors(image.width * image.height)
    much = [colour for _, colour in sorted(counted, reverse=True)[: colours // 4]]
    apart = image.quantize(colours - len(much), Image.Quantize.MAXCOVERAGE).getpalette() or []
    palette = Image.new("P", (1, 1))
    palette.putpalette([*(part for colour in much for part in colour), *apart])
    found = BytesIO()
    few = image.quantize(palette=palette, dither=Image.Dither.NONE)
    few.save(found, "PNG", optimize=True)
    return found.getvalue()


def ink(picture: bytes) -> float:
    """The part of a picture that has another colour than most of it."""
    with Image.open(BytesIO(picture)) as image:
        colours: Any = image.convert("RGB").getcolors(image.width * image.height)
    counts: list[int] = [count for count, _ in colours]
    return 1.0 - max(counts) / sum(counts)


def take(chromium: Chromium, width: int, height: int, *, phone: bool, dark: bool) -> bytes:
    """What is seen at this size."""
    chromium.size(width, height, phone=phone, dark=dark)
    # Two frames later all is laid out and drawn anew.
    chromium.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    chromium.run("new Promise((done) => setTimeout(done, 400))")
    return chromium.picture()


def _keep(chromium: Chromium, shown: Shown, screen: Screen, folder: Path) -> None:
    chromium.size(1280, 900)
    open_screen(chromium, shown, screen)
    for width, height, phone in WIDTHS:
        for dark in (False, True):
            if dark and (screen.name, width) not in IN_THE_DARK:
                continue
            name = f"{screen.name}{'-dark' if dark else ''}-{width}.png"
            picture = small(take(chromium, width, height, phone=phone, dark=dark))
            (folder / name).write_bytes(picture)
    leave_screen(chromium, shown, screen)


def main(folder: Path) -> None:
    """All of them, instead of those that are there."""
    for old in folder.glob("*.png"):
        old.unlink()
    with (
        tempfile.TemporaryDirectory() as place,
        demo(Path(place), _PERIOD) as shown,
        Chromium(Path(place) / "profile") as chromium,
    ):
        for screen in SCREENS:
            _keep(chromium, shown, screen, folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

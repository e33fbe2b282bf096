"""Take the pictures of the documentation: `make pictures`.

The program runs a demo with a fixed seed and photographs its web page in a real Chromium.
"""

import tempfile
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

from tests.real.web.chromium import Chromium
from tests.real.web.screens import SCREENS, WIDTHS, leave_screen, open_screen
from tests.real.web.sites import demo

FOLDER = Path(__file__).parents[3] / "docs" / "pictures"
PICTURES = (
    ("overview", 1280, False),
    ("vm", 1280, False),
    ("vm", 375, True),
    ("platform", 1280, False),
    ("bid-quote", 800, False),
    ("plan", 1280, False),
)
"""Screen, width, and whether it is dark; the pages of docs/ show each picture."""
MAX_BYTES = 60_000
_PERIOD = 27
"""The first period in which all tenants of the demo have VMs."""
_BOTTOM = """16 + Math.ceil(
  document.getElementById('main').lastElementChild.getBoundingClientRect().bottom)"""
"""The height of the page without the empty space below it."""
_COLOURS = (64, 40, 24, 16)


def name_of(screen: str, width: int, *, dark: bool) -> str:
    """Return the name of a picture's file."""
    return f"{screen}{'-dark' if dark else ''}-{width}.png"


def small(picture: bytes) -> bytes:
    """Return the picture with few colours, and with fewer if it is still too large."""
    with Image.open(BytesIO(picture)) as opened:
        image = opened.convert("RGB")
    return next(
        picture for picture in map(partial(_reduced, image), _COLOURS) if len(picture) <= MAX_BYTES
    )


def _reduced(image: Image.Image, colours: int) -> bytes:
    """Return the picture with its most frequent colours, and with those that differ most."""
    counted: Any = image.getcolors(image.width * image.height)
    much = [colour for _, colour in sorted(counted, reverse=True)[: colours // 4]]
    apart = image.quantize(colours - len(much), Image.Quantize.MAXCOVERAGE).getpalette() or []
    palette = Image.new("P", (1, 1))
    palette.putpalette([*(part for colour in much for part in colour), *apart])
    png = BytesIO()
    few = image.quantize(palette=palette, dither=Image.Dither.NONE)
    few.save(png, "PNG", optimize=True)
    return png.getvalue()


def ink(picture: bytes) -> float:
    """Return the part of a picture that does not have its most frequent colour."""
    with Image.open(BytesIO(picture)) as image:
        colours: Any = image.convert("RGB").getcolors(image.width * image.height)
    counts: list[int] = [count for count, _ in colours]
    return 1.0 - max(counts) / sum(counts)


def take(chromium: Chromium, width: int, height: int, *, phone: bool, dark: bool) -> bytes:
    """Return a picture of the page at this size."""
    chromium.size(width, height, phone=phone, dark=dark)
    # After two frames the layout is complete.
    chromium.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    chromium.run("new Promise((done) => setTimeout(done, 400))")
    return chromium.picture()


def main(folder: Path = FOLDER) -> None:
    """Take all pictures again; delete those that are not in the list."""
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.png"):
        old.unlink()
    sizes = {width: (height, phone) for width, height, phone in WIDTHS}
    with (
        tempfile.TemporaryDirectory() as place,
        demo(Path(place), _PERIOD) as shown,
        Chromium(Path(place) / "profile") as chromium,
    ):
        for screen in SCREENS:
            wanted = [(width, dark) for name, width, dark in PICTURES if name == screen.name]
            if not wanted:
                continue
            chromium.size(1280, 900)
            open_screen(chromium, shown, screen)
            for width, dark in wanted:
                height, phone = sizes[width]
                chromium.size(width, height, phone=phone)
                height = min(height, chromium.run(_BOTTOM))
                picture = small(take(chromium, width, height, phone=phone, dark=dark))
                (folder / name_of(screen.name, width, dark=dark)).write_bytes(picture)
            leave_screen(chromium, shown, screen)


if __name__ == "__main__":
    main()

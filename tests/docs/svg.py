"""Drawings of the documentation as SVG: boxes, texts, lines and arrows on a white sheet."""

from collections.abc import Sequence
from xml.sax.saxutils import escape

WIDTH = 640
INK, GREY, PALE = "#1f2933", "#7b8794", "#e4e7eb"
TENANTS = {"ana": "#9ec5e8", "bo": "#f6c28b", "cy": "#a8d5a2"}
_SIZE = 14


class Drawing:
    """One drawing; coordinates are pixels from the top left corner."""

    def __init__(self, height: int, title: str) -> None:
        """Start an empty sheet; readers that don't see it get the title."""
        self._height = height
        self._title = title
        self._parts: list[str] = []

    def text(self, x: float, y: float, words: str, *, at: str = "start", ink: str = INK) -> None:
        """Write a line whose foot is at `y`; `at` is start, middle or end."""
        self._parts.append(
            f'<text x="{x:g}" y="{y:g}" text-anchor="{at}" fill="{ink}">{escape(words)}</text>'
        )

    def box(self, x: float, y: float, width: float, height: float, fill: str = "#ffffff") -> None:
        """Draw a box with an edge."""
        self._parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="3" '
            f'fill="{fill}" stroke="{INK}"/>'
        )

    def labelled(
        self, x: float, y: float, width: float, lines: Sequence[str], fill: str = "#ffffff"
    ) -> float:
        """Draw a box around lines of text; return its lower edge."""
        height = 18 * len(lines) + 12
        self.box(x, y, width, height, fill)
        for number, line in enumerate(lines):
            self.text(x + width / 2, y + 20 + 18 * number, line, at="middle")
        return y + height

    def line(
        self, points: Sequence[tuple[float, float]], *, ink: str = INK, dashed: bool = False
    ) -> None:
        """Draw a line through these points."""
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        dashes = ' stroke-dasharray="5 4"' if dashed else ""
        self._parts.append(
            f'<polyline points="{path}" fill="none" stroke="{ink}" stroke-width="2"{dashes}/>'
        )

    def arrow(self, *points: tuple[float, float]) -> None:
        """Draw a line through these points that ends in an arrow."""
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        self._parts.append(
            f'<polyline points="{path}" fill="none" stroke="{GREY}" stroke-width="2" '
            'marker-end="url(#head)"/>'
        )

    def bar(self, y: float, parts: Sequence[tuple[str, float, str]], whole: float) -> None:
        """Draw a host as a bar of its VMs: (tenant, amount, label)."""
        x, pixels = 130.0, (WIDTH - 150) / whole
        self.box(x, y, WIDTH - 150, 34, PALE)
        for tenant, amount, label in parts:
            self.box(x, y, amount * pixels, 34, TENANTS[tenant])
            self.text(x + amount * pixels / 2, y + 22, label, at="middle")
            x += amount * pixels

    def render(self) -> str:
        """Return the file's text."""
        body = "\n".join(self._parts)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self._height}" '
            f'width="{WIDTH}" height="{self._height}" role="img" '
            f'font-family="sans-serif" font-size="{_SIZE}">\n'
            f"<title>{escape(self._title)}</title>\n"
            '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" '
            f'markerHeight="7" orient="auto"><path d="M0 0 10 5 0 10z" fill="{GREY}"/></marker>'
            "</defs>\n"
            f'<rect width="{WIDTH}" height="{self._height}" fill="#ffffff"/>\n{body}\n</svg>\n'
        )

"""Forms and queries: parsed on first use, in time proportional to their size.

# Note [The time to read a form]
A form has up to 128 KiB, and strangers send forms too. `urllib.parse` decodes each `%` on its own:
131,072 of them take 107 ms, in which the daemon answers no other request. Here numpy decodes all of
them at once, in 2 ms. The separators & and = are found in the encoded text. Their positions in the
decoded text follow from a count of the bytes that remain before each position. Then the fields are
cut out of the decoded text.
Example: `a=%41b&c` is decoded to `a=Ab&c`; the & is at 6 in the encoded and at 4 in the decoded
text, because two bytes of `%41` before it disappear.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

MOST_FIELDS = 2_000
MOST_FORM_BYTES = 8_192
"""The limit of a form without a template or the steps of a plan."""
MOST_LONG_BYTES = 1 << 17
"""The limit of other forms: the longest template with each byte encoded as three, and a margin."""
_PERCENT, _PLUS, _SPACE = b"%+ "
_HEX = np.full(256, -1, np.int16)
for _at, _digit in enumerate(b"0123456789abcdef"):
    _HEX[_digit] = _HEX[ord(chr(_digit).upper())] = _at


class Form:
    """The fields of a form or of a query."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._fields: Mapping[str, Sequence[str]] | None = None

    @property
    def text(self) -> str:
        """Return the encoded text."""
        return self._text.decode("latin-1")

    @property
    def fields(self) -> Mapping[str, Sequence[str]]:
        """Return the values of each field by name; no fields if the text is not a valid form."""
        if self._fields is None:
            self._fields = fields_of(self._text)
        return self._fields

    def field(self, name: str) -> str:
        """Return the first value of a field, "" if it is missing."""
        return next(iter(self.fields.get(name, ())), "")


def fields_of(text: bytes) -> dict[str, list[str]]:
    """Return the values of each field by name; no fields if the text is not a valid form."""
    if text.count(b"&") >= MOST_FIELDS or not text.isascii():
        return {}
    plain, place = _replaced(text)
    fields: dict[str, list[str]] = {}
    begin = 0
    for part in text.split(b"&"):
        end = begin + len(part)
        if part:
            mark = text.find(b"=", begin, end)
            name_end, value = (end, end) if mark < 0 else (mark, mark + 1)
            name = _text(plain[place[begin] : place[name_end]])
            fields.setdefault(name, []).append(_text(plain[place[value] : place[end]]))
        begin = end + 1
    return fields


def decoded(text: bytes) -> str:
    """Return a decoded path, in which + is not a space."""
    return _text(_replaced(text, plus=_PLUS)[0])


def _replaced(text: bytes, plus: int = _SPACE) -> tuple[bytes, np.ndarray[Any, np.dtype[np.intp]]]:
    """Return the decoded text, and for each position in the encoded text that in the decoded."""
    sent = np.frombuffer(text, np.uint8)
    read = np.where(sent == _PLUS, np.uint8(plus), sent)
    at = np.flatnonzero(sent[:-2] == _PERCENT)
    value = _HEX[sent[at + 1]] * 16 + _HEX[sent[at + 2]]
    right = (_HEX[sent[at + 1]] >= 0) & (_HEX[sent[at + 2]] >= 0)
    at = at[right]
    read[at] = value[right]
    left = np.ones(len(sent) + 1, np.intp)
    left[at + 1] = left[at + 2] = 0
    place = np.cumsum(left) - left
    return read[left[:-1] > 0].tobytes(), place


def _text(plain: bytes) -> str:
    return plain.decode("utf-8", "replace")

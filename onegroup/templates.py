"""What the word behind `create` means: a file, standard input, an id or a name in OpenNebula."""

import sys
from pathlib import Path
from typing import TypedDict

from merkatd.commands.table.columns import short

LONGEST = 32_768


class Template(TypedDict, total=False):
    """One of the three."""

    template: str
    template_id: int
    template_name: str


class TemplateError(Exception):
    """There is no such template; the message says what would be right."""


def template(word: str) -> Template:
    """Digits are an id; what is a file is read; else it is a name. Raises TemplateError."""
    if word.isascii() and word.isdigit() and len(word) <= 10:
        return {"template_id": int(word)}
    try:
        if word == "-":
            return {"template": _checked(word, sys.stdin.buffer.read(LONGEST + 1))}
        path = Path(word)
        if path.is_file():
            with path.open("rb") as file:
                return {"template": _checked(word, file.read(LONGEST + 1))}
    except OSError as error:
        raise TemplateError(f"{short(word)}: {error.strerror}") from None
    except ValueError:
        raise TemplateError(f"{short(word)}: no file can be called so") from None
    if "/" in word:
        raise TemplateError(f"{short(word)}: there is no such file")
    return {"template_name": word}


def _checked(word: str, found: bytes) -> str:
    if len(found) > LONGEST:
        raise TemplateError(f"{short(word)}: a template has at most {LONGEST} bytes")
    try:
        return found.decode()
    except UnicodeDecodeError:
        raise TemplateError(f"{short(word)}: it is no text in UTF-8") from None

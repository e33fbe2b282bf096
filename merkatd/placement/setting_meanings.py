"""The meanings of settings, from the docstrings of their fields."""

import ast
import inspect
import textwrap
from dataclasses import is_dataclass
from itertools import pairwise


def docs_of(section: type) -> dict[str, str]:
    """Return the docstring of each field, including fields of base classes."""
    docs: dict[str, str] = {}
    for base in reversed(section.__mro__):
        if is_dataclass(base):
            docs |= _docs_in(base)
    return docs


def _docs_in(section: type) -> dict[str, str]:
    try:
        source = inspect.getsource(section)
    except OSError:
        # Merkat must read configurations also when it is installed without its source.
        return {}
    (body,) = ast.parse(textwrap.dedent(source)).body
    docs = {}
    statements = body.body if isinstance(body, ast.ClassDef) else []
    for field, words in pairwise(statements):
        match field, words:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                docs[name] = " ".join(text.split())
    return docs

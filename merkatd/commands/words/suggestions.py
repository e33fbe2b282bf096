"""Suggestions for misspelled words: the most similar known word."""

import difflib
from collections.abc import Iterable

_MOST = 40
"""Longer words are no misspellings, and comparing them takes long."""

_LEAST_ALIKE = 0.65
"""The least similarity of a suggestion, from 0 to 1."""


def similar(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that is most similar to this one, or None if none is."""
    if not 1 < len(word) <= _MOST:
        return None
    by_lower = {each.lower(): each for each in known}
    near = difflib.get_close_matches(word.lower(), by_lower, 1, _LEAST_ALIKE)
    if near:
        return by_lower[near[0]]
    begun = [each for lower, each in by_lower.items() if lower.startswith(word.lower())]
    return begun[0] if len(begun) == 1 else None


def hint(word: str, known: Iterable[str]) -> str:
    """Return `did you mean ...?`, or the list of the known words."""
    words = list(known)
    near = similar(word, words)
    return f"did you mean {near}?" if near else f"expected one of: {', '.join(words)}"

"""The last log line of a process, as shown to its tenant."""

from pathlib import Path

import pytest

from merkatd.platforms.processes.process_files import last_log_line


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("first\nValueError: no such cluster\n\n  \n", "ValueError: no such cluster"),
        ("bell\a and colour \x1b[31m\n", "bell and colour [31m"),
        ("x" * 10_000, "x" * 300),
        ("y" * 299, "y" * 299),
        ("\n\n", ""),
    ],
)
def test_the_last_line_with_text_is_shown(tmp_path: Path, text: str, words: str) -> None:
    """It has at most 300 characters and no control characters."""
    log = tmp_path / "one.log"
    log.write_text(text)
    assert last_log_line(log) == words
    assert last_log_line(tmp_path / "none.log") == ""

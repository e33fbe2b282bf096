"""A tenant's command in this process: its arguments, its standard input, and its output."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.commands.asking import Said


class CommandShell:
    """Runs a command as a user whose login is in a file of its folder."""

    def __init__(
        self,
        main: Callable[[Sequence[str]], int],
        begins: tuple[str, ...],
        folder: Path,
        capture: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """`begins` are the words with which each error line begins."""
        self.folder = folder
        self._main, self._begins = main, begins
        self._capture, self._monkeypatch = capture, monkeypatch

    def set(self, name: str, value: str) -> None:
        """Set a variable of the environment."""
        self._monkeypatch.setenv(name, value)

    def login(self, session: str) -> None:
        """Act as this user from now on."""
        file = self.folder / "one_auth"
        file.write_text(f"{session}\n")
        self.set("ONE_AUTH", str(file))

    def __call__(self, words: str, typed: str = "") -> Said:
        """Run the command with these arguments and this standard input."""
        self._capture.readouterr()
        file = self.folder / "typed"
        file.write_text(typed)
        with file.open() as stdin:
            self._monkeypatch.setattr("sys.stdin", stdin)
            try:
                code = self._main(words.split())
            except SystemExit as stopped:
                code = stopped.code if isinstance(stopped.code, int) else 1
        printed = self._capture.readouterr()
        return Said(code, printed.out, printed.err)

    def ok(self, words: str, typed: str = "") -> str:
        """Return the output of a command that must succeed without warnings."""
        result = self(words, typed)
        assert (result.code, result.err) == (0, ""), result
        return result.out

    def refused(self, words: str, code: int = 1, typed: str = "") -> str:
        """Return the single error line of a command that must fail."""
        return self._line(self(words, typed), code)

    def _line(self, result: Said, code: int) -> str:
        assert result.code == code, result
        assert result.err.count("\n") == 1, result.err
        assert result.err.startswith(self._begins), result.err
        return result.err

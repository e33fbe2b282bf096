"""Options anywhere on the command line, misspelled words, and the variable MERKAT_CONFIG."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from merkatd.cli import parser
from merkatd.commands.words.suggestions import similar
from merkatd.commands.words.word_order import OptionValue, arguments_first, command_first
from tests.commands.asking import Daemon, Shell

OPTIONS = {
    "--csv": OptionValue(),
    "-j": OptionValue(),
    "--list": OptionValue(needed=True),
    "-l": OptionValue(needed=True),
    "--skip": OptionValue(needed=True, many=True),
    "--sort": OptionValue(needed=True, signed=True),
}
_WORD = st.from_regex(r"[a-z0-9][a-z0-9_.-]{0,5}|-[0-9]{1,2}", fullmatch=True)
_TAKEN = st.one_of(
    st.sampled_from([["--csv"], ["-j"]]),
    st.tuples(st.sampled_from(["--list", "-l"]), _WORD).map(list),
    _WORD.map(lambda word: [f"--list={word}"]),
)


@given(st.lists(st.one_of(_WORD.map(lambda word: [word]), _TAKEN)))
def test_arguments_come_first_and_nothing_is_lost(parts: list[list[str]]) -> None:
    """Arguments and options keep their order, and each option keeps its value."""
    words = [word for part in parts for word in part]
    arguments = [part[0] for part in parts if not _option(part[0])]
    options = [word for part in parts if _option(part[0]) for word in part]
    assert arguments_first(words, OPTIONS) == [*arguments, *options]


@given(st.lists(_TAKEN, max_size=4), st.lists(_WORD, max_size=3))
def test_the_command_precedes_the_options_before_it(
    before: list[list[str]], after: list[str]
) -> None:
    """A value that is a command's name is still a value."""
    options = [word for part in before for word in part]
    expected = ["list", *options, *after]
    assert command_first([*options, "list", *after], ["list", "status"], OPTIONS) == expected
    named = ["--list", "status", *options, "list", *after]
    assert command_first(named, ["list", "status"], OPTIONS)[:3] == ["list", "--list", "status"]


def _option(word: str) -> bool:
    return word.startswith("-") and not word[1:].isdigit()


def test_words_after_two_dashes_stay() -> None:
    """They are arguments, whatever they look like."""
    assert arguments_first(["a", "--csv", "--", "--list"], OPTIONS) == [
        "a",
        "--csv",
        "--",
        "--list",
    ]


def test_a_value_may_start_with_a_minus_where_it_means_downwards() -> None:
    """`--sort -COST` needs no equals sign; an option after it is still an option."""
    assert arguments_first(["--sort", "-COST", "x"], OPTIONS) == ["x", "--sort=-COST"]
    assert arguments_first(["--sort", "--csv"], OPTIONS) == ["--sort", "--csv"]


@pytest.mark.parametrize(
    "words",
    [
        "list vms --csv -l ID,NAME",
        "list --csv vms -l ID,NAME",
        "--csv list -l ID,NAME vms",
        "--csv -l ID,NAME list vms",
        "-l ID,NAME --csv list vms",
        "--list=ID,NAME --csv list vms",
    ],
)
def test_options_may_stand_anywhere(words: str, asked: Shell) -> None:
    """Before the command, between its arguments and behind them."""
    assert asked.ok(words).lines[:2] == ["ID,NAME", "0,web-0"]


def test_an_option_between_two_arguments_that_may_be_missing(asked: Shell) -> None:
    """`show --csv 0` shows tenant 0 as `show 0 --csv` does."""
    between = asked("tenant", "show", "--csv", "0")
    assert between.code == 0, between
    assert between.out == asked.ok("tenant show 0 --csv").out


def test_alone_the_program_prints_its_help(shell: Shell) -> None:
    """It ends with 0, like --help."""
    assert shell.ok("").out == shell.ok("--help").out
    assert "explain" in shell.ok("").out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("staus", "unknown command 'staus'; did you mean status?"),
        ("expalin 0", "did you mean explain?"),
        ("list vm", "did you mean vms?"),
        ("list vms --csvv", "unknown option '--csvv'; did you mean --csv?"),
        ("list vms --no-headr", "did you mean --no-header?"),
        ("list vms -l NAM", "did you mean NAME?"),
        ("list vms -f STAT=x", "did you mean STATE?"),
        ("list vms --sort CSOT", "did you mean COST?"),
        ("log --kind deplyo", "did you mean deploy?"),
        ("manual bidd", "did you mean bid?"),
        ("zzzz", "expected one of: run, check"),
    ],
)
def test_the_most_similar_word_is_suggested(words: str, message: str, asked: Shell) -> None:
    """In one line, with exit code 2."""
    assert message in asked.refused(words, 2)


def test_no_word_is_suggested_for_long_or_empty_texts() -> None:
    """Comparing them would take long, and none is a misspelling."""
    assert similar("", ["list"]) is None
    assert similar("list" * 1000, ["list"]) is None
    assert similar("LIST", ["list"]) == "list"


def test_merkat_config_names_the_configuration(
    tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The option --config comes before it; an empty variable is none."""
    named, other = tmp_path / "named.toml", tmp_path / "other.toml"
    monkeypatch.setenv("MERKAT_CONFIG", str(named))
    assert str(named) in shell.refused("status")
    assert str(other) in shell.refused(f"status --config {other}")
    assert str(named) in shell.refused("check")
    assert parser(["run"]).parse_args(["run"]).config == named
    monkeypatch.setenv("MERKAT_CONFIG", "")
    assert parser(["run"]).parse_args(["run"]).config is None


@pytest.mark.parametrize("words", ["0..2", "0,1,2", "0 1 2", "web-0 1..2", "0..1,web-2", "0..2 1"])
def test_explain_takes_lists_and_ranges(words: str, asked: Shell) -> None:
    """Each VM is explained once."""
    rows = asked.ok(f"explain {words} --csv --no-header -l VM,RESOURCE").lines
    expected = {f"{vm},{good}" for vm in range(3) for good in ("cpu", "memory")}
    assert set(rows) == expected
    assert asked.ok(f"explain {words}").out.count("Why there") == 3


def test_a_missing_vm_of_a_list_does_not_hide_the_others(asked: Shell) -> None:
    """It has a line of its own, and the exit code is 1."""
    result = asked("explain", "0,77,1", "--csv", "--no-header", "-l", "VM")
    assert (result.code, result.lines) == (1, ["0", "0", "1", "1"])
    assert result.err == "merkatd explain: no VM has the id or name '77'\n"


@pytest.mark.parametrize("words", ["2..0", "0..99999999", "0..1000", "1,,2"])
def test_wrong_ranges_are_refused(words: str, asked: Shell) -> None:
    """A range counts upwards and has at most 1,000 ids."""
    assert "explain" in asked.refused(f"explain {words}", 2)


def test_a_name_with_dots_is_a_name(daemon: Daemon, shell: Shell) -> None:
    """Only two ids make a range."""
    daemon.frontend.vm(1.0, NAME="v1..2-db")
    daemon.period()
    assert "v1..2-db" in shell.ok("explain v1..2-db").out

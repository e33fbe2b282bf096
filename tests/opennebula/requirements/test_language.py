"""The language of requirements, compared with OpenNebula's scheduler."""

import pytest

from merkatd.opennebula.requirements import (
    FactTable,
    RequirementError,
    holds,
    host_ranks_of,
    hosts_where,
    parse,
    parse_rank,
    rank_of,
)
from merkatd.opennebula.requirements.literals import decimal, glob, whole

HOST = {
    "ARCH": ["x86_64"],
    "CLUSTER": ["gpu"],
    "CORES": ["16"],
    "LOAD": ["0.5"],
    "MIXED": ["none", "7", "9"],
    "EMPTY": [""],
    "SLASH": ["a/b"],
    "CLUSTERS/ID": ["0", "100"],
    "FREE": ["12.7 GB"],
}
VMS = frozenset({3, 17})


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("", True),
        ("  ", True),
        ('ARCH = "x86_64"', True),
        ("ARCH = x86_64", True),
        ("arch = x86_64", False),  # names are upper-case and compared unchanged
        ("ARCH = X86_64", False),
        ('ARCH = "x86*"', True),
        ('ARCH = "x??_64"', True),
        ('ARCH = "[a-x]86_6[!5]"', True),
        ('ARCH != "arm*"', True),
        ('ARCH = ""', False),
        ('ARCH != ""', False),  # an empty text has nothing to compare with
        ('SLASH = "a*b"', True),
        ('EMPTY = "*"', True),
        ("MISSING = 1", False),
        ("MISSING != 1", False),
        ('MISSING != "x"', False),
        ("!(MISSING = 1)", True),
        ("CORES = 16", True),
        ('CORES = "16"', True),
        ('CORES = "16.0"', False),
        ("CORES = 16.0", True),
        ("CORES > 15", True),
        ("CORES < 16", False),
        ("LOAD = 0", True),  # a whole number is read up to its last digit
        ("LOAD > 0", False),
        ("LOAD > 0.25", True),
        ("LOAD = 0.5", True),
        ("FREE = 12", True),
        ("FREE > 12.6", True),
        ("MIXED = 7", True),  # the first value that is a number
        ("MIXED = 9", False),
        ("MIXED @> 9", True),
        ('MIXED @> "no*"', True),
        ('MIXED = "7"', False),  # texts compare only the first value
        ('"CLUSTERS/ID" @> 100', True),
        ('"CLUSTERS/ID" @> 5', False),
        ('"CLUSTERS/ID" @ > 100', True),
        ("CORES ! = 5", True),
        ("CURRENT_VMS = 17", True),
        ("CURRENT_VMS != 17", False),
        ("CURRENT_VMS = 4", False),
        ("CURRENT_VMS != 4", True),
        ("CURRENT_VMS @> 17", False),
        ('CURRENT_VMS = "17"', False),
        ("!CORES = 16", False),
        ("!!CORES = 16", True),
        ("!CORES = 16 | CORES = 16", True),
        # & and | have equal precedence, from left to right
        ("CORES = 16 | CORES = 1 & CORES = 1", False),
        ("CORES = 16 | (CORES = 1 & CORES = 1)", True),
        ("CORES = 1 & CORES = 1 | CORES = 16", True),
        # the scanner skips unknown characters
        ("CORES = 16;", True),
        ('ARCH = "x86_64', True),
        ("CORES\n= 16", True),
    ],
)
def test_requirements_are_evaluated_like_by_opennebula(text: str, answer: bool) -> None:
    """Single hosts and columns of hosts give the same result."""
    expression = parse(text)
    assert holds(expression, HOST, VMS) is answer
    table = FactTable([{}, HOST], [frozenset(), VMS])
    assert hosts_where(expression, table).tolist() == [holds(expression, {}), answer]


@pytest.mark.parametrize(
    ("text", "at", "word"),
    [
        ("ARCH", 5, "=, !=, >, < or @>"),
        ("ARCH =", 7, "a number or a text"),
        ("ARCH = & 1", 8, "a number or a text"),
        ('CORES > "3"', 9, "a number"),
        ("A = 1 && B = 2", 8, "a single &"),
        ("A = 1 || B = 2", 8, "a single |"),
        ("(A = 1", 7, "&, | or )"),
        ("A = 1)", 6, "&, | or the end"),
        ("A = 1 B = 2", 7, "&, | or the end"),
        ('"" = 1', 1, "an attribute"),
        ("3 = A", 1, "an attribute"),
        ("A @ 3", 5, "the > of @>"),
        ("A = 99999999999", 5, "expected -2147483648 to"),
        ("HOST/ARCH = 1", 5, "=, !="),
        ("(" * 200 + "A = 1" + ")" * 200, 102, "nested at most 100 deep"),
    ],
)
def test_errors_name_the_place_and_the_accepted_form(text: str, at: int, word: str) -> None:
    """Texts that OpenNebula rejects are rejected with a helpful message."""
    with pytest.raises(RequirementError) as error:
        parse(text)
    assert f"at character {at}:" in str(error.value)
    assert word in str(error.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("CORES", 16),
        ("- CORES", -16),
        ("MISSING", 0),
        ("ARCH", 0),
        ("CORES + 2 * 3", 22),
        ("(CORES + 2) * 3", 54),
        ("CORES - 2 - 3", 11),
        ("CORES / 4 / 2", 2),
        ("CORES / - 4 / 2", -8),  # a minus applies to all factors that follow
        ("LOAD * 3", 1),  # truncated
        ("- LOAD * 3", -1),
        ("CORES / 0", 2**31 - 1),
        ("0 / 0", -(2**31)),
        ("FREE * 10", 127),
        ("MIXED + CORES", 23),
    ],
)
def test_ranks_are_evaluated_like_by_opennebula(text: str, value: int) -> None:
    """Single hosts and columns of hosts give the same result."""
    assert rank_of(parse_rank(text), HOST) == value
    assert host_ranks_of(parse_rank(text), FactTable([HOST, HOST])).tolist() == [value, value]


@pytest.mark.parametrize("text", ["CORES-3", "CORES -3", "+", "(1", "A B", "A = 1", '""', "1 ^ 2"])
def test_invalid_ranks_are_rejected(text: str) -> None:
    """A minus directly before a digit belongs to the number, as in OpenNebula."""
    with pytest.raises(RequirementError):
        parse_rank(text)


@pytest.mark.parametrize(
    ("pattern", "text", "answer"),
    [
        ("a*c*e", "abcde", True),
        ("a*c*e", "abcd", False),
        ("*", "", True),
        ("?", "", False),
        (r"a\*", "a*", True),
        (r"a\*", "ab", False),
        ("a\\", "a\\", False),
        ("[", "[", True),
        ("[]a]", "]", True),
        ("[!]a]", "b", True),
        ("[^a]", "b", True),
        ("[[:digit:]x]", "7", True),
        ("[[:digit:]x]", "a", False),
        ("[a-c-]", "-", True),
        ("[z-a]", "m", False),
        ("a.c", "abc", False),
        (".*", ".x", True),
        ("x\ny", "x\ny", True),
        ("a", "a\n", False),
    ],
)
def test_globs_are_those_of_c(pattern: str, text: str, answer: bool) -> None:
    """They follow `fnmatch` without flags: a star matches slashes and leading dots."""
    assert glob(pattern)(text) is answer


def test_a_glob_with_many_stars_is_fast() -> None:
    """No pattern delays the scheduler."""
    assert not glob("*a" * 100 + "b")("a" * 2000)


@pytest.mark.parametrize(
    ("text", "number", "fraction"),
    [
        ("12", 12, 12.0),
        (" \t+12x", 12, 12.0),
        ("-0", 0, 0.0),
        ("0x10", 0, 0.0),
        ("x", None, None),
        ("", None, None),
        ("+ 5", None, None),
        (".5", None, 0.5),
        ("1e2", 1, 100.0),
        ("1e", 1, None),
        ("1e40", 1, None),
        ("inf", None, None),
        ("2147483648", None, 2147483648.0),
        ("9" * 400, None, None),
    ],
)
def test_numbers_are_read_like_by_a_c_stream(
    text: str, number: int | None, fraction: float | None
) -> None:
    """Reading stops at the first other character, and too large numbers are invalid."""
    assert whole(text) == number
    assert decimal(text) == fraction

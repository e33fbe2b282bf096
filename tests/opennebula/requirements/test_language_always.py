"""Any text is read or rejected, and columns equal single hosts."""

from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.opennebula.requirements import (
    Expression,
    FactTable,
    Rank,
    RequirementError,
    holds,
    host_ranks_of,
    hosts_where,
    parse,
    parse_rank,
    rank_of,
)
from merkatd.opennebula.requirements.syntax_tree import (
    Attribute,
    Chain,
    Compare,
    Minus,
    Not,
    Product,
    RankNumber,
    Relation,
    Sum,
)
from tests.lengths import EXAMPLES

NAMES = st.sampled_from(["A", "B_2", "CURRENT_VMS", "CLUSTERS/ID", "a b", "é"])


WHOLES = st.integers(-(2**31), 2**31 - 1) | st.integers(-3, 20)


DECIMALS = st.floats(width=32, allow_nan=False, allow_infinity=False)


TEXTS = st.text(alphabet='ab*?[]!-\\:x/7. "', max_size=6).map(lambda text: text.replace('"', ""))


ORDERED = st.builds(
    Compare, NAMES, st.sampled_from([Relation.ABOVE, Relation.BELOW]), WHOLES | DECIMALS
)


EQUAL = st.builds(
    Compare,
    NAMES,
    st.sampled_from([Relation.IS, Relation.IS_NOT, Relation.HAS]),
    WHOLES | DECIMALS | TEXTS,
)


def _chains(parts: st.SearchStrategy[object]) -> st.SearchStrategy[Chain]:
    rest = st.lists(st.tuples(st.sampled_from("&|"), parts), min_size=1, max_size=3)
    return st.builds(Chain, parts, rest.map(tuple))


EXPRESSIONS = st.recursive(
    ORDERED | EQUAL, lambda parts: st.builds(Not, parts) | _chains(parts), max_leaves=8
)


def _joined(kind: type, signs: str, parts: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    rest = st.lists(st.tuples(st.sampled_from(signs), parts), min_size=1, max_size=3)
    return st.builds(kind, parts, rest.map(tuple))


RANKS = st.recursive(
    st.builds(RankNumber, WHOLES | DECIMALS) | st.builds(Attribute, NAMES),
    lambda parts: (
        st.builds(Minus, parts) | _joined(Product, "*/", parts) | _joined(Sum, "+-", parts)
    ),
    max_leaves=8,
)


VALUES = st.lists(
    st.sampled_from(["", "a", "ab", "7", "7.5", " 7x", "-1e3", "x/7", "2147483648", "1e39"])
    | st.text(alphabet="ab7.x", max_size=4),
    max_size=3,
)


HOSTS = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from(["A", "B_2", "CLUSTERS/ID", "a b"]), VALUES),
        st.frozensets(st.integers(-1, 20), max_size=3),
    ),
    max_size=4,
)


@given(st.text() | st.text(alphabet='AB12 .&|!=<>@()"-*/+^\\', max_size=30))
def test_any_text_is_read_or_rejected(text: str) -> None:
    """No other exception occurs."""
    for read in (parse, parse_rank):
        try:
            tree = read(text)
        except RequirementError:
            continue
        assert repr(read(str(tree))) == repr(tree)


@given(EXPRESSIONS, HOSTS)
def test_columns_equal_single_hosts(
    expression: Expression, hosts: list[tuple[dict[str, list[str]], frozenset[int]]]
) -> None:
    """A printed expression parses to the same tree."""
    assert repr(parse(str(expression))) == repr(expression)
    values, vms = [host[0] for host in hosts], [host[1] for host in hosts]
    alone = [holds(expression, *host) for host in hosts]
    assert hosts_where(expression, FactTable(values, vms)).tolist() == alone


@settings(max_examples=EXAMPLES)
@given(RANKS, HOSTS)
def test_ranks_of_columns_equal_single_hosts(
    rank: Rank, hosts: list[tuple[dict[str, list[str]], frozenset[int]]]
) -> None:
    """They are equal to the last digit."""
    assert repr(parse_rank(str(rank))) == repr(rank)
    values = [host[0] for host in hosts]
    alone = [rank_of(rank, value) for value in values]
    assert host_ranks_of(rank, FactTable(values)).tolist() == alone

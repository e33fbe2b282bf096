"""Limits of a tenant's monitor: expressions of bounded time, and its own VMs' addresses."""

import contextlib
import json
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.monitors.guest_access import SshReach
from controllers.monitors.iteration_count import Count, next_count
from merkatd.base.line_patterns import LONGEST, MOST_KIB, pattern_of
from merkatd.protocol.monitor_terms import check_address

_LINE = "a" * 200_000 + "!"


class TestPatterns:
    @pytest.mark.parametrize(
        "text",
        [
            r"(?P<step>a+)+$",
            r"(a|aa)+(?P<step>b)$",
            r"(?P<step>(.*a){20}b)",
            r"(.*)(.*)(.*)(.*)(.*)(.*)x(?P<step>y)",
        ],
    )
    def test_the_time_of_a_match_grows_only_with_the_line(self, text: str) -> None:
        """For some of these Python's own engine would take ages."""
        pattern = pattern_of(text)
        began_s = time.thread_time()
        next_count(Count(), [_LINE] * 4, pattern, 1.0)
        assert time.thread_time() - began_s < 1.0

    @pytest.mark.parametrize(
        "text",
        ["(?P<step>a)(?=b)", r"(?P<step>a)\1", "(?P<step>a", "a", "x" * (LONGEST + 1), "\ud800"],
    )
    def test_unbounded_expressions_are_refused(self, text: str) -> None:
        """Invalid ones are refused too, in one short sentence."""
        with pytest.raises(ValueError, match="pattern ") as caught:
            pattern_of(text)
        assert len(str(caught.value)) < 300

    @pytest.mark.parametrize(
        "text",
        [
            r"(?P<step>\pL{1000})",
            r"(?P<step>\pL{30})",
            r"(?P<step>(\pN{20}){20})",
            rf"(?P<step>{r'[^a]{1000}' * 20})",
            rf"(?P<step>{r'(?:x{1000})?' * 70})",
            rf"(?i)(?P<step>{r'[^k]{31}' * 30})",
        ],
    )
    def test_an_expression_that_grows_when_compiled_is_refused(self, text: str) -> None:
        """Its check holds the daemon no longer than other requests."""

        def took_s() -> float:
            began_s = time.thread_time()
            with pytest.raises(ValueError, match=f"needs more than {MOST_KIB} KiB when compiled"):
                pattern_of(text)
            return time.thread_time() - began_s

        assert min(took_s() for _ in range(3)) < 0.02

    @pytest.mark.parametrize("word", [r"\pL", r"\P{Greek}", r"[^\p{L}]"])
    def test_more_than_a_few_unicode_classes_are_refused(self, word: str) -> None:
        """Each has hundreds of ranges, which take time before memory is bounded."""
        pattern_of(f"(?P<step>{word * 3})")
        began_s = time.thread_time()
        with pytest.raises(ValueError, match=r"at most 8 classes \\p and \\P \(got 90\)"):
            pattern_of(f"(?P<step>{word * 90})")
        assert time.thread_time() - began_s < 0.01

    @pytest.mark.parametrize(
        "text",
        [
            r"(?i)\bepoch\b.*loss=(?P<step>\d{1,9}) time (?P<seconds>\d+\.\d{1,6})",
            r"^\[\w{3} \d{2}\] .{0,200}\bstep (?P<step>\d+)/\d+, (?P<seconds>\d+(\.\d+)?) ?s$",
            r"étape (?P<step>\p{Nd}+).*(durée|temps) (?P<seconds>\p{Nd}+)",
        ],
    )
    def test_expressions_of_real_logs_are_accepted(self, text: str) -> None:
        """The bounds are far from the needs of a log."""
        assert pattern_of(text).search("nothing") is None

    @given(st.text(max_size=60), st.text(max_size=60))
    def test_any_line_counts_or_does_not(self, step: str, seconds: str) -> None:
        """The log may have any text in the place of numbers."""
        line = f"<{step}|{seconds}>"
        count = next_count(Count(), [line], pattern_of(r"<(?P<step>.*)\|(?P<seconds>.*)>"), 1.0)
        json.dumps([count.done, count.step_s], allow_nan=False)

    @pytest.mark.parametrize("number", ["9" * 5_000, "nan", "inf", "1e999", "-3"])
    def test_invalid_numbers_are_ignored(self, number: str) -> None:
        """They are not counted, and no error occurs."""
        pattern = pattern_of(r"(?P<step>\S+) (?P<seconds>\S+)")
        assert next_count(Count(done=2), [f"{number} 1"], pattern, 9.0) == Count(done=2)
        assert next_count(Count(), [f"4 {number}"], pattern, 9.0).took_s == ()


class TestAddresses:
    REACH = json.dumps(
        {
            "address": "10.0.0.{vm}",
            "allowed": ["10.1.*", "*.vms.example.org"],
            "user": "root",
            "port": 22,
            "limits": {},
        }
    )

    @pytest.mark.parametrize(
        "address",
        ["10.0.0.{vm}", "10.1.{vm}.2", "10.1.2.3", "a{vm}.vms.example.org", "{vm}.vms.example.org"],
    )
    def test_the_platforms_own_vms_and_allowed_addresses_are_accepted(self, address: str) -> None:
        """They follow the site's pattern or the administrator's list."""
        reach = SshReach.read(self.REACH)
        assert reach.but({"address": address}).address == address
        assert reach.but({}).address == "10.0.0.{vm}"

    @pytest.mark.parametrize(
        "address",
        [
            "10.0.0.1",
            "127.0.0.1",
            "10.2.0.1",
            "x10.1.0.1",
            "vms.example.org",
            "",
            "10.1." + "1" * 300,
            "10.1.attacker.example",
            "10.1.2.3 -oProxyCommand=x",
            "10.1.2.3/../x",
            "-oProxyCommand=x.vms.example.org",
            "-x.vms.example.org",
            "a/b.vms.example.org",
            "a\0.vms.example.org",
        ],
    )
    def test_other_addresses_are_refused(self, address: str) -> None:
        """The message lists the allowed ones."""
        with pytest.raises(ValueError, match=r"allows '10.0.0.\{vm\}', '10.1.\*'"):
            SshReach.read(self.REACH).but({"address": address})

    def test_the_id_of_a_vm_is_no_digit_of_an_address(self) -> None:
        """Otherwise `10.0.0.1{vm}` would match 10.0.0.10, and then any from 10.0.0.11 on."""
        with pytest.raises(ValueError, match=r"allows '10\.0\.0\.10'"):
            check_address("10.0.0.1{vm}", ("10.0.0.10",))

    @given(
        st.text(alphabet="*a1.:{", min_size=1, max_size=8),
        st.lists(st.sampled_from(["a", "1", ".", ":", "{vm}", "{"]), max_size=10).map("".join),
    )
    def test_a_star_stands_for_one_character_or_more(self, pattern: str, address: str) -> None:
        """Patterns with many stars agree with regular expressions."""
        numeric = re.fullmatch(r"[0-9.*]+", pattern) is not None
        token = r"(?:\{vm\}|[0-9.])+" if numeric else r"(?:\{vm\}|[A-Za-z0-9._-])+"
        expression = token.join(re.escape(part) for part in pattern.split("*"))
        try:
            check_address(address, (pattern,))
            taken = True
        except ValueError:
            taken = False
        assert taken == (re.fullmatch(expression, address) is not None)

    @pytest.mark.parametrize("pattern", ["10.*.*.*", "*.*.*.*", "*.*.*.*.*.*.*.*", "*" * 100])
    @pytest.mark.parametrize(
        "address", ["." * 252 + "x", "10." + "1." * 124 + "x", "1" * 252 + "x"]
    )
    def test_many_stars_take_no_more_time_than_one(self, pattern: str, address: str) -> None:
        """The time to match an address grows only with its length."""
        began_s = time.thread_time()
        with contextlib.suppress(ValueError):
            check_address(address, (pattern,))
        assert time.thread_time() - began_s < 0.01

    def test_no_address_is_allowed_by_default(self) -> None:
        """This includes a configuration without any addresses."""
        with pytest.raises(ValueError, match="allows none"):
            check_address("10.0.0.1", ("",))

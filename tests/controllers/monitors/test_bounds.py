"""What a tenant's monitor may ask for: expressions of bounded time, and its own VMs' addresses."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.monitors.addresses import check_address
from controllers.monitors.counting import LONGEST, Count, counted, pattern_of
from controllers.monitors.guests import Reach

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
    def test_a_match_takes_time_that_grows_with_the_line_alone(self, text: str) -> None:
        """For some of these Python's own engine would take longer than anybody lives."""
        pattern = pattern_of(text)
        began_s = time.thread_time()
        counted(Count(), [_LINE] * 4, pattern, 1.0)
        assert time.thread_time() - began_s < 1.0

    @pytest.mark.parametrize(
        "text",
        ["(?P<step>a)(?=b)", r"(?P<step>a)\1", "(?P<step>a", "a", "x" * (LONGEST + 1), "\ud800"],
    )
    def test_what_is_not_bounded_is_refused(self, text: str) -> None:
        """And what is no expression, in one short sentence."""
        with pytest.raises(ValueError, match="pattern ") as caught:
            pattern_of(text)
        assert len(str(caught.value)) < 300

    @given(st.text(max_size=60), st.text(max_size=60))
    def test_any_line_counts_or_does_not(self, step: str, seconds: str) -> None:
        """Whatever a log says where numbers should stand."""
        line = f"<{step}|{seconds}>"
        found = counted(Count(), [line], pattern_of(r"<(?P<step>.*)\|(?P<seconds>.*)>"), 1.0)
        json.dumps([found.done, found.step_s], allow_nan=False)

    @pytest.mark.parametrize("number", ["9" * 5_000, "nan", "inf", "1e999", "-3"])
    def test_numbers_that_are_none(self, number: str) -> None:
        """Nothing is counted, and nothing fails."""
        pattern = pattern_of(r"(?P<step>\S+) (?P<seconds>\S+)")
        assert counted(Count(done=2), [f"{number} 1"], pattern, 9.0) == Count(done=2)
        assert counted(Count(), [f"4 {number}"], pattern, 9.0).took_s == ()


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
    def test_the_platforms_own_vms_and_what_the_site_allows(self, address: str) -> None:
        """The site's pattern, and what its administrator has listed."""
        reach = Reach.read(self.REACH)
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
    def test_no_other_address(self, address: str) -> None:
        """The message says what is allowed."""
        with pytest.raises(ValueError, match=r"allows '10.0.0.\{vm\}', '10.1.\*'"):
            Reach.read(self.REACH).but({"address": address})

    def test_the_id_of_a_vm_is_no_digit_of_an_address(self) -> None:
        """Else `10.0.0.1{vm}` would be 10.0.0.10, as is allowed, and then any from 10.0.0.11 on."""
        with pytest.raises(ValueError, match=r"allows '10\.0\.0\.10'"):
            check_address("10.0.0.1{vm}", ("10.0.0.10",))

    def test_nothing_is_allowed_unless_it_is_said(self) -> None:
        """Where the configuration names no addresses at all, too."""
        with pytest.raises(ValueError, match="allows none"):
            check_address("10.0.0.1", ("",))

"""The caller's address behind proxies: only trusted proxies name it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from merkatd.api.http.forwarded_addresses import TrustedProxies, counted_address


class TestForwarded:
    proxies = TrustedProxies(["127.0.0.1", "10.0.0.0/8", "2001:db8::/32"])

    @given(peer=st.ip_addresses(), header=st.binary(max_size=60))
    def test_headers_of_strangers_are_ignored(self, peer: Any, header: bytes) -> None:
        """The header counts only from a trusted proxy."""
        if not self.proxies.trust(str(peer)):
            assert self.proxies.caller(str(peer), [header]) == counted_address(str(peer))

    @given(forged=st.binary(max_size=100), caller=st.ip_addresses(v=4))
    def test_only_addresses_appended_by_the_proxy_count(self, forged: bytes, caller: Any) -> None:
        """The caller's own part of the header is ignored."""
        if not self.proxies.trust(str(caller)):
            header = forged + b", " + str(caller).encode()
            assert self.proxies.caller("127.0.0.1", [header]) == str(caller)
            assert self.proxies.caller("127.0.0.1", [forged, str(caller).encode()]) == str(caller)

    @pytest.mark.parametrize(
        ("headers", "caller"),
        [
            ([], "127.0.0.1"),
            ([b""], "127.0.0.1"),
            ([b"nonsense"], "127.0.0.1"),
            ([b"203.0.113.5"], "203.0.113.5"),
            ([b"203.0.113.5:4711"], "203.0.113.5"),
            ([b"1.1.1.1, 203.0.113.5, 10.0.0.7"], "203.0.113.5"),
            ([b"1.1.1.1", b"203.0.113.5, 10.0.0.7"], "203.0.113.5"),
            ([b"203.0.113.5, x, 10.0.0.7"], "10.0.0.7"),
            ([b"[2001:470::5]:99"], "2001:470::/64"),
            ([b"2001:470::5"], "2001:470::/64"),
            ([b"::ffff:203.0.113.5"], "203.0.113.5"),
            ([b"203.0.113.5," + b"10.0.0.1," * 50 + b"10.0.0.1"], "10.0.0.1"),
        ],
    )
    def test_headers_of_proxies_are_parsed(self, headers: list[bytes], caller: str) -> None:
        """The result is the nearest address that is no trusted proxy."""
        assert self.proxies.caller("127.0.0.1", headers) == caller

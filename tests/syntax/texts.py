"""Generated template texts: good ones, bad ones, and those that only OpenNebula's lexer takes."""

from hypothesis import strategies as st

_SIGNS = [*"=\"[],#;$%'>&.-x\\é", "]]>", '\\"', " = ", "\n", "\t", " ", "[ ", "] ", "[]"]
_NAMES = ["A", "B", "AB_1", "1x", "XML", "A=", "=\n"]
_WHOLE = ['"v"', '"a b"', "# c\n", "A=1\n", 'B="2"', 'C=[D="1",E=2]']

TEXTS = st.lists(st.sampled_from([*_SIGNS, *_NAMES, *_WHOLE]), min_size=1, max_size=10).map("".join)
"""Texts of OpenNebula's own syntax, of which about a fifth are templates."""

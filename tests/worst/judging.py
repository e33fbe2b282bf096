"""Requirements and ranks of VMs, evaluated against a thousand different hosts."""

import numpy as np

from merkatd.opennebula.constraints.host_requirements import rank_error, requirement_constraint
from merkatd.opennebula.requirements import OF_USERS, FactTable, ranked
from merkatd.opennebula.requirements.literals import glob
from tests.worst.search import Parser

HOSTS = 1_000
_TABLE_ROWS = [
    {
        "NAME": [f"node-{row}.rack-{row % 20}.example.org"],
        "ID": [str(row)],
        "FREE_CPU": [str(row % 97)],
        "HYPERVISOR": ["kvm"],
        "CPUSPEED": [f"{row}.5"],
        "LABELS": [f"a{row}", "b", "c" * 50],
    }
    for row in range(HOSTS)
]


def _judged(text: str) -> None:
    """Evaluate a requirement as a period does that has cached neither the text nor the hosts."""
    glob.cache_clear()
    table = FactTable(_TABLE_ROWS)
    constraint = requirement_constraint("SCHED_REQUIREMENTS", text, table, "host")
    constraint.why(np.ones(HOSTS, dtype=bool))


def _ranked(text: str) -> None:
    table = FactTable(_TABLE_ROWS)
    ranked(text, table)
    rank_error("SCHED_RANK", text, table)


_WORDS = (
    *("NAME", "ID", "FREE_CPU", "CPUSPEED", "LABELS", "A{n}", " = ", " != ", " > ", " @> ", " & "),
    *(" | ", "!", "(", ")", '"', "*", "?", "[", "]", "\\", "-", "a", "{n}", "1", "1.5", " ", "[!"),
    *("[[:alpha:]", "a-z", "node-*", '"*a*"', "NAME = a{n} & ", 'NAME = "*{n}*" | ', "CURRENT_VMS"),
)

REQUIREMENTS = Parser(
    name="SCHED_REQUIREMENTS",
    read=_judged,
    bytes_=OF_USERS.characters,
    words=_WORDS,
    frames=(("", ""), ("", "ID > 1"), ('NAME = "', '"'), ('LABELS @> "', '"')),
    known=(
        ("", "A = 1 & ", "A = 1"),
        ("", 'NAME = "*{n}*" | ', "ID > 1"),
        ("", 'LABELS @> "*{n}*c*" | ', "ID > 1"),
        ("", 'NAME = "*{n}*" & ', "ID > 1"),
        ('NAME = "', "*a", '"'),
        ('NAME = "', "*?", '"'),
        ('NAME = "', "[", '"'),
        ('NAME = "', "[!", '"'),
        ('NAME = "', "[[:alpha:]", '"'),
        ('NAME = "', "\\[", '\\]"'),
        ("", "(", ""),
        ("", "!", "ID = 1"),
        ("", "ID > {n} & ", "ID > 1"),
        ("", "A{n} = 1 | ", "ID = 1"),
        ("ID = ", "1", ""),
        ("ID = ", "1.", ""),
        ("", "-", ""),
        ("", '"', ""),
        ("NAME = " + "(", "(", ""),
        ("", 'NAME = "[a-z]*[0-9]?{n}*" & ', "ID > 1"),
    ),
)
RANK = Parser(
    name="SCHED_RANK",
    read=_ranked,
    bytes_=OF_USERS.characters,
    words=(*_WORDS, "+", "- ", "*", "/", "CPUSPEED * "),
    frames=(("", ""), ("", "1")),
    known=(
        ("", "FREE_CPU + ", "1"),
        ("", "A{n} + ", "1"),
        ("", "- ", "1"),
        ("", "(", ""),
        ("", "1 * ", "1"),
    ),
)
JUDGING = (REQUIREMENTS, RANK)

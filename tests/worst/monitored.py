"""Answers of a tenant's VMs to the monitors of its platform; templates of the embedded cloud.

A monitor is a process of its own platform: its limit is higher, because it delays no other part of
Merkat. The embedded cloud accepts texts of any length, as OpenNebula does, and needs time in
proportion to their length.
"""

from controllers.monitors import log_probe
from controllers.monitors.batch_systems.grid_engine import GridEngine
from controllers.monitors.batch_systems.slurm import Slurm
from controllers.monitors.iteration_count import PATTERN, Count, next_count
from controllers.monitors.log_probe import Position
from controllers.monitors.ssh_pool import MOST_BYTES
from merkatd.base.line_patterns import pattern_of
from merkatd.embedded.model import template_text
from merkatd.service.groups import LONGEST_TEMPLATE
from tests.worst.search import Parser

MONITOR_S = 1.0
_PATTERN = pattern_of(PATTERN)
_NODES, _NOW = "--nodes--\n", "--now--\n2026-05-01T00:00:00\n"


def _log(text: str) -> None:
    tail = log_probe.read_tail(Position(), text.encode())
    next_count(Count(), tail.lines, _PATTERN, 1.0)


def _embedded(text: str) -> None:
    """Parse a template and write it as XML again, as a call of the embedded cloud does."""
    template = template_text.parse(text)
    template_text.template_xml(template, "TEMPLATE")


LOG = Parser(
    name="log of an application",
    read=_log,
    bytes_=log_probe.MAX_READ_BYTES,
    limit_s=MONITOR_S,
    words=("step 1 2.5 s", "\n", "step ", "1", " s", "s", ".", " ", "a", "\r", "\x0b", "é"),
    frames=(("new 1 0\n", "\n"), ("new 1 0\nstep 1", "\n")),
    known=(
        ("new 1 0\n", "\n", ""),
        ("new 1 0\n", "a\n", ""),
        ("new 1 0\n", "step 1 2 s\n", ""),
        ("new 1 0\n", "step ", "\n"),
        ("new 1 0\nstep ", "1", "\n"),
        ("new 1 0\nstep 1 ", "1.", "\n"),
        ("new 1 ", "9", "\n"),
        ("", "1 ", "\n"),
    ),
)
SIGNS = Parser(
    name="signs of an application",
    read=lambda text: log_probe.read_signs(text.encode()),
    bytes_=MOST_BYTES,
    limit_s=MONITOR_S,
    words=("1", ".", ":", " ", "e", "_", "a"),
    known=(("", "1", ":1"), ("1:", "1", ""), ("1:", " ", ""), ("", ":", "")),
)
SLURM = Parser(
    name="answer of Slurm",
    read=Slurm().read,
    bytes_=MOST_BYTES,
    limit_s=MONITOR_S,
    words=(
        *("1 RUNNING|1|a|b|w1\n", "w[1-9],", "w[", "]", "1-", ",", "9", "1", "|", " ", "\n"),
        *("1 PENDING|1|2026-05-01T00:00:00|b|\n", "w{n}|idle\n", "w1|drain*\n"),
    ),
    frames=(
        ("", _NODES + _NOW),
        ("1 RUNNING|1|a|b|w[", "]\n" + _NODES + _NOW),
        (_NODES, _NOW),
    ),
    known=(
        ("1 RUNNING|1|a|b|", "w", "[1-999999999]\n" + _NODES + _NOW),
        ("1 RUNNING|1|a|b|w[", "1-99999,", "1]\n" + _NODES + _NOW),
        ("1 RUNNING|1|a|b|w[", "0", "1-9]\n" + _NODES + _NOW),
        ("", "1 RUNNING|1|a|b|w[1-9999]\n", _NODES + _NOW),
        ("", "1 PENDING|1|2026-05-01T00:00:00|b|\n", _NODES + _NOW),
        ("1 PENDING|", "9", "|a|b|\n" + _NODES + _NOW),
        (_NODES, "w{n}|idle\n", _NOW),
        (_NODES + "w|", "*", "\n" + _NOW),
        ("", "\n", _NODES + _NOW),
    ),
)
_LATER = "\n--later--\n\n" + _NOW
GRID_ENGINE = Parser(
    name="answer of Grid Engine",
    read=GridEngine().read,
    bytes_=MOST_BYTES,
    limit_s=MONITOR_S,
    words=(
        *("<Queue-List>", "</Queue-List>", "<name>a@{n}</name>", "<state>d</state>", "<a/>"),
        '<job_list state="pending"><JB_job_number>{n}</JB_job_number></job_list>',
        *('<job_list state="pending"><tasks>1-9:1</tasks></job_list>', "1,", "<tasks>", "</tasks>"),
    ),
    frames=(("<job_info>", "</job_info>" + _LATER),),
    known=(
        ("<job_info>", "<Queue-List>", "</job_info>" + _LATER),
        (
            "<job_info>" + "<Queue-List>" * 20_000,
            "<job_list/>",
            "</Queue-List>" * 20_000 + "</job_info>" + _LATER,
        ),
        ("<job_info>", "<Queue-List><name>a@{n}</name></Queue-List>", "</job_info>" + _LATER),
        ("<job_info>", '<job_list state="pending"/>', "</job_info>" + _LATER),
        (
            '<job_info><job_list state="pending"><tasks>',
            "1,",
            "1</tasks></job_list></job_info>" + _LATER,
        ),
    ),
)
EMBEDDED = Parser(
    name="template for the embedded cloud",
    read=_embedded,
    bytes_=LONGEST_TEMPLATE // 2,
    words=(
        *("A", "{n}", "=", "\n", "[", "]", ",", '"', "\\", "#", " ", "A{n}=1\n", "A=[B=1]\n"),
        *("<A>1</A>", "<A><B>1</B></A>", "<A{n}>", "&amp;", "]]>"),
    ),
    frames=(("", ""), ("<TEMPLATE>", "</TEMPLATE>"), ('A="', '"'), ("A=[", "]")),
    known=(
        ("", "A=1\n", ""),
        ("", "A=[B=1]\n", ""),
        ("A=[", "B{n}=1,", "B=1]"),
        ('A="', '\\"', '"'),
        ("", "#", ""),
        ("", "A= #\n", ""),
        ("<TEMPLATE>", "<A>1</A>", "</TEMPLATE>"),
        ("<TEMPLATE>", "<A>", "</TEMPLATE>"),
        ("<TEMPLATE><A>", "&amp;", "</A></TEMPLATE>"),
        ("<TEMPLATE><A>", "<B{n}>1</B{n}>", "</A></TEMPLATE>"),
    ),
    refuses=(template_text.ParseError,),
)
MONITORED = (LOG, SIGNS, SLURM, GRID_ENGINE, EMBEDDED)

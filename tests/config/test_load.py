"""A configuration is read completely, or all of its errors are reported at once."""

import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.config.configuration import Config
from merkatd.config.errors import ConfigError, Problem
from merkatd.config.loader import Reader, load, parse
from merkatd.config.process_sections import LogLevel
from merkatd.config.setting_schema import settings_of
from merkatd.config.setting_values import sections, to_toml
from merkatd.market.price import PriceRule
from merkatd.placement.tabu.tabu import Objective
from tests.config.configs import configs
from tests.lengths import EXAMPLES


def problems(text: str) -> tuple[Problem, ...]:
    """Return the problems of a text."""
    with pytest.raises(ConfigError) as caught:
        parse(text)
    return caught.value.problems


def only_problem(text: str) -> str:
    """Return the only problem of a text."""
    (problem,) = problems(text)
    return str(problem)


def test_an_empty_file_has_all_defaults() -> None:
    """A first run needs no configuration."""
    assert parse("") == Config()


def test_every_kind_of_value_is_read() -> None:
    """Durations, sizes, fractions, numbers, flags, choices, lists, tables and paths."""
    config = parse(
        """
        daemon.log_level = "debug"
        [period]
        interval = "90s"  # longer
        most_periods_charged = 3
        [cloud]
        host_memory = "2GiB"
        auth_file = "/etc/merkat/auth"
        [market.batch]
        clusters = [0, 100]
        price_rule = "clearing"
        reserve_prices = { cpu = 0.5 }
        [strategy.tabu]
        m_max_part = "10%"
        objective = "error"
        n_iter = 30
        hold = "5m"
        [limits.memory]
        shrink_unmeasured = true
        """
    )
    assert config.daemon.log_level is LogLevel.DEBUG
    assert (config.period.interval_s, config.period.most_periods_charged) == (90.0, 3.0)
    assert config.cloud.host_memory_mib == 2048
    assert config.cloud.auth_file == "/etc/merkat/auth"
    market = config.markets["batch"]
    assert list(config.markets) == ["batch"]
    assert (market.clusters, market.price_rule) == (frozenset({0, 100}), PriceRule.CLEARING)
    assert market.reserve_prices == {"cpu": 0.5}
    tabu = config.strategies["tabu"]
    assert (tabu.m_max_part, tabu.objective, tabu.n_iter, tabu.hold_s) == (
        0.1,
        Objective.ERROR,
        30,
        300.0,
    )
    assert config.limits.memory.shrink_unmeasured is True


def test_all_problems_are_reported_with_their_lines() -> None:
    """They come in the order of the file, not only the first one."""
    reported = problems(
        "[period]\n"
        'interval = "6x"\n'
        'intervall = "60s"\n'
        "\n"
        "[perod]\n"
        "x = 1\n"
        "[strategy.tabu]  # ours\n"
        "n_iter = 2.5\n"
        '"e_max" = -1\n'
        "[market.web]\n"
        'strategy = "tabo"\n'
    )
    assert [(problem.line, ".".join(problem.path)) for problem in reported] == [
        (2, "period.interval"),
        (3, "period.intervall"),
        (5, "perod"),
        (8, "strategy.tabu.n_iter"),
        (9, "strategy.tabu.e_max"),
        (11, "market.web.strategy"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '[period]\ninterval = "6x"',
            (
                'line 2: period.interval = "6x": is not a duration; write a number and one of us,'
                ' ms, s, m, h, d, for example "60s"'
            ),
        ),
        (
            "[period]\ninterval = 60",
            'line 2: period.interval = 60: must be a text with a unit, for example "60s"',
        ),
        ('[period]\ninterval = "0s"', 'line 2: period.interval = "0s": must be above 0'),
        (
            "period.intervall = 1",
            "line 1: period.intervall: is not a known key; did you mean 'interval'?",
        ),
        (
            "[perod]",
            "line 1: perod: is not a known section; did you mean 'period'?",
        ),
        (
            "period = 3",
            "line 1: period: must be a section: write [period] on a line of its own",
        ),
        (
            "[period]\nin_flight = 0.5",
            "line 2: period.in_flight = 0.5: must be a whole number",
        ),
        (
            "[period]\nin_flight = true",
            "line 2: period.in_flight = true: must be a whole number",
        ),
        (
            "[period]\nin_flight = 0",
            "line 2: period.in_flight = 0: must be at least 1",
        ),
        ("[cloud]\nspeed = inf", "line 2: cloud.speed = Infinity: must be a finite number"),
        (
            '[cloud]\nhost_memory = "1KiB"',
            'line 2: cloud.host_memory = "1KiB": must be a whole number of MiB',
        ),
        (
            '[cloud]\nkind = "opennebular"',
            (
                'line 2: cloud.kind = "opennebular": must be one of embedded, opennebula; did you'
                " mean 'opennebula'?"
            ),
        ),
        (
            '[cloud]\nendpoint = "localhost"',
            (
                'line 2: cloud.endpoint = "localhost": must be an HTTP address, for example'
                " 'http://127.0.0.1:2633/RPC2'"
            ),
        ),
        *(
            (
                f'[bus]\nendpoint = "{value}"',
                (
                    f'line 2: bus.endpoint = "{value}": must be empty, or a loopback address with'
                    ' port *, for example "tcp://127.0.0.1:*"'
                ),
            )
            for value in ("tcp://0.0.0.0:*", "tcp://127.0.0.1:5555", "ipc:///tmp/bus")
        ),
        (
            '[strategy.tabu]\nm_max_part = "101%"',
            'line 2: strategy.tabu.m_max_part = "101%": must be at most 100%',
        ),
        (
            "[strategy.taboo]",
            "line 1: strategy.taboo: is not a known section; did you mean 'tabu'?",
        ),
        ("strategy = 1", "line 1: strategy: must contain sections: write [strategy.NAME]"),
        ("market = []", "line 1: market: must contain sections: write [market.NAME]"),
        (
            '[strategy.tabu]\npricing = "paper"',
            "line 2: strategy.tabu.pricing: is not a known key; ",
        ),
        (
            '[market."a b"]',
            "line 1: market.a b: is not a valid market name: use 1 to 64 letters, digits, - and _",
        ),
        (
            '[market.a]\nclusters = "b"',
            'line 2: market.a.clusters = "b": must be a list, as in [1, 2]',
        ),
        (
            "[market.a]\ndefault_bid = { cpu = -1 }",
            'line 2: market.a.default_bid = {"cpu": -1}: must be at least 0',
        ),
        (
            "[market.a]\ndefault_bid = { cpus = 1 }",
            (
                "line 2: market.a.default_bid = {\"cpus\": 1}: 'cpus' is not a resource; did you"
                " mean 'cpu'?"
            ),
        ),
        (
            "[limits.memory]\nshrink_unmeasured = 1",
            "line 2: limits.memory.shrink_unmeasured = 1: must be true or false",
        ),
        ('[daemon]\ncontrol_socket = ""', "must be the path of a file"),
        *(
            (
                f"[power]\nsleep = '{command}'",
                "must be a command with {host} or {id} where the host's name or id belongs",
            )
            for command in (
                "systemctl poweroff",
                "ssh {} poweroff",
                "ssh {hosts} poweroff",
                "ssh {host[a]} poweroff",
                "ssh {host.name} poweroff",
                'ssh "{host} poweroff',
                "awk {print}",
                "ssh {{host}} poweroff",
            )
        ),
        ("x = \n", "line 1: must be valid TOML: Invalid value"),
        ("x = 1" + "0" * 5000, "must be valid TOML"),
    ],
)
def test_a_problem_names_place_value_and_accepted_values(text: str, message: str) -> None:
    """It has section, key, value, the line if known, and the way out."""
    assert message in only_problem(text)


def test_choices_are_listed_once() -> None:
    """This holds also if no choice is similar."""
    assert only_problem('[cloud]\nkind = "xyz"').count("opennebula") == 1


def test_a_password_is_never_shown() -> None:
    """Neither a problem nor a printed configuration contains it."""
    assert "hunter2" not in only_problem('[database]\nurl = "oracle://merkat:hunter2@db/merkat"')
    assert "hunter2" not in repr(parse('[database]\nurl = "mysql://merkat:hunter2@db/merkat"'))


def test_an_invalid_key_causes_no_further_problems() -> None:
    """A cross-check is skipped if one of its keys is invalid."""
    text = '[period]\ninterval = "20m"\nstep_limit = "5 minutes"\n'
    assert [problem.path for problem in problems(text)] == [("period", "step_limit")]


def test_lines_are_correct_beside_multiline_texts() -> None:
    """A key inside of a text over several lines does not count."""
    reported = problems('[daemon]\ncontrol_socket = """\n[period]\ninterval = 1\n"""\nlevel = 1\n')
    assert [(problem.line, problem.path[-1]) for problem in reported] == [(6, "level")]


def test_a_file_is_named_in_its_problems(tmp_path: Path) -> None:
    """Every line of the message starts with the file."""
    path = tmp_path / "merkatd.toml"
    path.write_text("[period]\nx = 1\ny = 2\n")
    with pytest.raises(ConfigError) as caught:
        load(path)
    lines = str(caught.value).splitlines()
    assert [line.split(": ")[:2] for line in lines] == [
        [str(path), "line 2"],
        [str(path), "line 3"],
    ]


def test_an_unreadable_file_is_a_problem_too(tmp_path: Path) -> None:
    """A missing file and invalid UTF-8 raise the same kind of error."""
    with pytest.raises(ConfigError, match="can't be read: No such file"):
        load(tmp_path / "merkatd.toml")
    (tmp_path / "merkatd.toml").write_bytes(b"a\xff")
    with pytest.raises(ConfigError, match="must be UTF-8: byte 1 is not"):
        load(tmp_path / "merkatd.toml")


@settings(max_examples=EXAMPLES)
@given(st.deferred(configs))
def test_a_written_configuration_is_read_unchanged(config: Config) -> None:
    """Any configuration survives TOML to the bit, with or without explanations."""
    for explained in (False, True):
        reader = Reader({})
        table = tomllib.loads(to_toml(config, explained=explained))
        assert reader.section(Config(), table, ()) == config
        assert reader.problems == []


@settings(deadline=None)
@given(st.text(max_size=80))
def test_any_text_is_a_configuration_or_an_error(text: str) -> None:
    """The only error is `ConfigError`."""
    with suppress(ConfigError):
        assert isinstance(parse(text), Config)


LEAVES = (
    st.none().map(lambda _: "2026-01-01")
    | st.booleans().map(lambda flag: str(flag).lower())
    | st.integers().map(str)
    | st.floats().map(str)
    | st.sampled_from(['"60s"', '"-1s"', '"10%"', '"x"', '""', "[]", "{}", "[1]", "{ a = 1 }"])
)
KEYS = st.sampled_from(
    [
        ".".join((*path, setting.key))
        for path, _, settings in sections(Config())
        for setting in settings
    ]
    + [setting.key for setting in settings_of(Config)]
    + ["market.default", "market.a.clusters", "strategy.x.y", "nothing"]
)


@settings(deadline=None)
@given(st.dictionaries(KEYS, LEAVES, max_size=6))
def test_any_value_of_any_key_is_read_or_rejected(values: dict[str, Any]) -> None:
    """Wrong types give problems with a name, and no other exception."""
    try:
        parse("\n".join(f"{key} = {value}" for key, value in values.items()))
    except ConfigError as error:
        for problem in error.problems:
            assert problem.path or "must be valid TOML" in problem.message

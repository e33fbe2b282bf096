"""The volume of live migrations is that of Paper IV's equations, printed again here."""

from math import ceil, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.kernel.migration_volume import PAPER_ROUNDS, CopyRounds, live_volume


def printed(memory: float, dirty: float, link: float, rounds: CopyRounds) -> float:
    """Return DT by Eq. 8 and 9, for 0 < R < L."""
    base = log(dirty / link)
    limits = (
        log(rounds.switch_over_s * link / memory) / base,
        log(rounds.progress_mib * dirty / (memory * (link - dirty))) / base,
    )
    count = min(max(ceil(min(limits)), 0), rounds.most_rounds)
    return memory + memory * (1 - (dirty / link) ** (count + 1)) / (1 - dirty / link)


@given(
    memory=st.floats(1.0, 1e6),
    link=st.floats(1.0, 1e5),
    part=st.floats(0.001, 0.99),
)
def test_the_printed_equations(memory: float, link: float, part: float) -> None:
    """For every rate below the link's."""
    got = float(live_volume(np.array(memory), np.array(part * link), np.array(link)))
    assert got == pytest.approx(printed(memory, part * link, link, PAPER_ROUNDS))
    assert 2 * memory <= got * (1 + 1e-12)
    assert got <= memory * (1 + (PAPER_ROUNDS.most_rounds + 1))


def test_an_example_by_hand() -> None:
    """4,096 MiB over 100 MiB/s at 50 MiB/s: seven rounds until 50 MiB are left.

    log_(1/2)(0.5 x 100 / 4096) = 6.36 and log_(1/2)(50 / (4096 x 50)) = 12: n is 7.
    """
    got = float(live_volume(np.array(4096.0), np.array(50.0), np.array(100.0)))
    assert got == pytest.approx(4096.0 + 4096.0 * (1 - 0.5**8) / 0.5)


@pytest.mark.parametrize(
    ("dirty", "link", "factor"),
    [
        (np.nan, 100.0, 1.0),
        (0.0, 100.0, 1.0),
        (10.0, np.nan, 1.0),
        (100.0, 100.0, 31.0),
        (500.0, 100.0, 31.0),
    ],
)
def test_where_the_equations_do_not_hold(dirty: float, link: float, factor: float) -> None:
    """Nothing to copy again: once. Rounds that gain nothing: each copies all, up to the limit."""
    got = live_volume(np.array([1000.0]), np.array([dirty]), np.array([link]))
    assert got.tolist() == [1000.0 * factor]


def test_more_writing_never_sends_less() -> None:
    """Among rates at which the guest writes at all."""
    dirty = np.linspace(0.1, 99.9, 400)
    volume = live_volume(np.full(400, 2048.0), dirty, np.full(400, 100.0))
    assert (np.diff(volume) > -1e-6 * 2048).all()

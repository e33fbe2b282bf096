"""The recorded prices of room: what they say of a bundle is what the book says."""

import numpy as np
import pytest
from hypothesis import given, settings

from merkatd.market.odds.room_prices import PARTS, RoomPrices, rooms_now
from tests.lengths import EXAMPLES
from tests.market.test_limit_orders import NUMBERS, book_of, drawn


def test_the_example_of_the_note() -> None:
    """Sizes between two recorded ones are interpolated."""
    price = np.full((1, 1, len(PARTS)), 2.0)
    price[0, 0, PARTS <= 0.25] = 1.0
    price[0, 0, PARTS == 0.375] = 1.5
    past = RoomPrices(np.array([[100.0]]), np.ones((1, 1)), np.zeros((1, 1)), price)
    assert past.needed(np.array([30.0])) == pytest.approx([1.2 * 30])
    assert past.needed(np.array([25.0])) == pytest.approx([25.0])
    assert past.needed(np.array([0.01])) == pytest.approx([0.01])
    assert past.needed(np.array([100.0])) == pytest.approx([200.0])
    assert past.needed(np.array([101.0])) == [np.inf]


def test_bids_make_a_large_order_dearer() -> None:
    """One bid of 10 for up to 100 units: an order for half pays what the other half then costs."""
    past = rooms_now(book_of([(10.0, 0.0, 100.0)], [], 100.0))
    assert past.needed(np.array([50.0])) == pytest.approx([50 * 10 / 50])
    assert past.needed(np.array([75.0])) == pytest.approx([75 * 10 / 25])
    assert past.needed(np.array([100.0]))[0] > 1e11


def test_a_good_that_nobody_has_room_in_is_unbuyable() -> None:
    """A market without hosts has no room at any price."""
    past = rooms_now(book_of([], [], 0.0))
    assert past.needed(np.array([1.0])) == [np.inf]
    assert past.needed(np.array([0.0])) == [0.0]


def test_free_room_costs_the_reserve_price() -> None:
    """Beside bids that have all they can use, nothing is displaced up to the free room."""
    past = rooms_now(book_of([(10.0, 0.0, 50.0)], [], 100.0, reserve=0.01))
    assert past.price[0, 0, PARTS <= 0.5].max() == 0.0
    assert past.needed(np.array([50.0])) == pytest.approx([0.5])
    assert past.needed(np.array([75.0])) == pytest.approx([75 * 10 / 25])


@given(NUMBERS)
@settings(max_examples=EXAMPLES)
def test_recorded_sizes_say_what_the_book_says(rng: np.random.Generator) -> None:
    """For several goods at once, the greatest height decides; and more room is never cheaper."""
    book = drawn(rng)
    past = rooms_now(book)
    for _ in range(5):
        parts = rng.choice(PARTS, len(book.capacity))
        parts[rng.random(len(parts)) < 0.3] = 0.0
        if not parts.any():
            continue
        bundle = parts * book.capacity
        (known,) = past.needed(bundle)
        (exact,) = book.limits_that_run(bundle[np.newaxis])
        if np.isinf(exact) or np.isinf(known):
            assert np.isinf(exact)
            assert np.isinf(known)
        else:
            assert known == pytest.approx(exact, rel=1e-6)
        assert past.needed(bundle * 0.9)[0] <= known * (1 + 1e-9)

"""Turns: work of many callers is bounded and fair, and no turn stays idle."""

from collections import Counter
from collections.abc import Awaitable, Callable

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred

from merkatd.service.base.turns import FairTurns


class TestTurns:
    @given(
        keys=st.lists(st.integers(0, 5), max_size=60),
        total=st.integers(1, 6),
        per_key=st.integers(1, 4),
        ends=st.lists(st.integers(0, 10**6), max_size=60),
    )
    def test_turns_are_bounded_and_never_idle(
        self, keys: list[int], total: int, per_key: int, ends: list[int]
    ) -> None:
        """The bounds hold in all and for each key; a free turn starts a waiting call."""
        turns = FairTurns(total, per_key=per_key)
        running: list[tuple[int, Deferred[None]]] = []
        waiting = list(keys)

        def work(key: int) -> Callable[[], Awaitable[None]]:
            async def begun() -> None:
                waiting.remove(key)
                mine: Deferred[None] = Deferred()
                running.append((key, mine))
                await mine

            return begun

        def check() -> None:
            held = [key for key, _ in running]
            assert len(held) <= total
            assert all(held.count(key) <= per_key for key in held)
            if len(held) < total:
                assert all(held.count(key) == per_key for key in waiting)

        for key in keys:
            Deferred.fromCoroutine(turns.run(key, work(key)))
        check()
        for end in ends:
            if running:
                running.pop(end % len(running))[1].callback(None)
                check()
        while running:
            running.pop()[1].callback(None)
        assert not waiting

    @given(
        keys=st.lists(st.integers(0, 5), max_size=60),
        waiting=st.integers(0, 12),
    )
    def test_waiting_places_are_shared(self, keys: list[int], waiting: int) -> None:
        """A refused key has as many waiting calls as any other, or one fewer."""
        turns = FairTurns(2, per_key=1, waiting=waiting)
        begun: list[int] = []
        refused: list[int] = []
        hanging: list[Deferred[None]] = []

        def come(key: int) -> None:
            async def hang() -> None:
                begun.append(key)
                hanging.append(Deferred())
                await hanging[-1]

            running = Deferred.fromCoroutine(turns.run(key, hang))
            running.addErrback(lambda _: refused.append(key))

        for key in keys:
            come(key)
        left = Counter(keys)
        left.subtract(begun)
        left.subtract(refused)
        assert left.total() == min(len(keys) - len(begun), waiting)
        assert all(left[key] >= max(left.values()) - 1 for key in refused)
        assert len(begun) == min(len(set(keys)), 2)

    def test_ten_thousand_calls_at_once_do_not_nest(self) -> None:
        """Immediate work is done one call after the other."""
        turns = FairTurns(1, per_key=1, waiting=20_000)
        first: Deferred[None] = Deferred()
        done: list[int] = []

        async def wait() -> None:
            await first

        async def note() -> None:
            done.append(1)

        Deferred.fromCoroutine(turns.run("a", wait))
        for number in range(5_000):
            Deferred.fromCoroutine(turns.run(number, note))
        first.callback(None)
        assert len(done) == 5_000

    def test_a_call_that_leaves_the_queue_takes_no_turn(self) -> None:
        """The others move up."""
        turns = FairTurns(1, per_key=1)
        first: Deferred[None] = Deferred()
        done: list[str] = []

        async def wait() -> None:
            await first

        async def note() -> None:
            done.append("last")

        Deferred.fromCoroutine(turns.run("a", wait))
        gone = Deferred.fromCoroutine(turns.run("b", wait))
        gone.addErrback(lambda _: done.append("gone"))
        Deferred.fromCoroutine(turns.run("c", note))
        gone.cancel()
        first.callback(None)
        assert done == ["gone", "last"]

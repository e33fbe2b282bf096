"""Limits by user and by address: no attacker and no neighbour keeps the right user out."""

import gc
from collections import Counter
from collections.abc import Awaitable, Callable
from types import FunctionType, ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from merkatd.api.http.admission import Admission, WrongPasswords
from merkatd.api.http.forwarded_addresses import TrustedProxies, counted_address
from merkatd.api.http.settings import ApiSettings
from merkatd.api.xmlrpc.dispatch import refusal_of
from merkatd.api.xmlrpc.errors import Code
from merkatd.service.base.callers import Caller
from merkatd.service.base.errors import RequestError, TooManyRequestsError
from merkatd.service.base.identity import SignIns
from merkatd.service.base.turns import FairTurns

GOOD = {"ann:right": 2, "bob:right": 3}
HOME, CAFE, EVIL = "192.0.2.1", "192.0.2.2", "198.51.100.9"
_USER = "<USER><ID>{}</ID><GID>1</GID><NAME>{}</NAME></USER>"


class OpenNebula:
    """Knows two users; it can hang."""

    def __init__(self) -> None:
        self.hangs = False
        self.asked: list[str] = []
        self.waiting: list[Deferred[list[Any]]] = []

    async def call(self, _method: str, *arguments: Any) -> list[Any]:
        """As `one.user.info` answers."""
        session = str(arguments[0])
        self.asked.append(session)
        if self.hangs:
            never: Deferred[list[Any]] = Deferred()
            self.waiting.append(never)
            return await never
        if session in GOOD:
            return [True, _USER.format(GOOD[session], session[:3]), 0]
        return [False, "[one.user.info] wrong", 256, -1, -1]


class Scene:
    """The door, with a clock."""

    def __init__(self, **settings: Any) -> None:
        self.clock = Clock()
        self.one = OpenNebula()
        sign_ins = SignIns(self.one, self.clock, kept_s=10.0, refusal_kept_s=2.0)
        self.admission = Admission(sign_ins, ApiSettings(**settings), self.clock)
        self._hanging: list[Deferred[None]] = []

    def come(
        self,
        session: str,
        address: str,
        work: Callable[[Caller], Awaitable[Any]] | None = None,
        after_s: float = 0.0,
    ) -> Any:
        """What a call comes to: a user's name, a refusal's code, or None while it waits."""
        outcome: list[Any] = []

        async def name(caller: Caller) -> str:
            return caller.identity.name

        async def coming() -> Any:
            door = self.admission
            door.heed(address, door.wait_s(address), known=door.knows(session))
            return await door.admitted(session, address, work or name)

        running = Deferred.fromCoroutine(coming())
        running.addCallbacks(outcome.append, lambda failure: outcome.append(_said(failure.value)))
        if after_s:
            self.clock.advance(after_s)
        return outcome[0] if outcome else None

    async def slow(self, _caller: Caller) -> None:
        """Work that never ends, and that no collection of garbage ends."""
        self._hanging.append(Deferred())
        await self._hanging[-1]


async def _nothing(_caller: Caller) -> None:
    """Nothing."""


def _said(error: BaseException) -> object:
    return refusal_of("", error).code if isinstance(error, RequestError) else error


class TestWrongPasswords:
    def test_who_tries_them_waits_longer_each_time(self) -> None:
        """An hour of trying asks OpenNebula some sixty times."""
        scene = Scene()
        for number in range(3_600):
            scene.come(f"ann:{number}", EVIL)
            scene.clock.advance(1.0)
        assert 50 < len(scene.one.asked) < 90

    def test_the_right_user_comes_in_from_elsewhere_at_once(self) -> None:
        """However many addresses try, and however often."""
        scene = Scene()
        for number in range(500):
            scene.come(f"ann:{number}", f"198.51.100.{number % 250}")
        assert scene.come("ann:right", HOME) == "ann"

    def test_a_user_whose_login_was_good_goes_on_beside_the_attacker(self) -> None:
        """Also from the attacker's own address, and once OpenNebula has to be asked again."""
        scene = Scene()
        assert scene.come("ann:right", EVIL) == "ann"
        for number in range(100):
            scene.come(f"ann:{number}", EVIL)
        assert scene.come("ann:more", EVIL) is Code.ACTION
        assert scene.come("ann:right", EVIL) == "ann"
        scene.clock.advance(60.0)
        for number in range(100):
            scene.come(f"ann:x{number}", EVIL)
        assert scene.come("ann:right", EVIL) == "ann"
        assert scene.one.asked.count("ann:right") == 2

    def test_a_neighbours_mistakes_block_nobody(self) -> None:
        """A program with an old password runs all day; others of its address sign in."""
        scene = Scene()
        for _ in range(2_000):
            scene.come("eve:old", HOME)
            scene.clock.advance(0.05)
        assert scene.come("eve:old", HOME) is Code.ACTION
        assert scene.come("ann:right", HOME) == "ann"
        assert scene.come("bob:right", HOME) == "bob"

    def test_a_typing_error_costs_no_wait(self) -> None:
        """The fifth try is looked at, and the right one forgives."""
        scene = Scene()
        for _ in range(20):
            for wrong in "abcd":
                assert scene.come(f"ann:{wrong}", HOME, after_s=0.5) is Code.AUTHENTICATION
            scene.clock.advance(10.0)
            assert scene.come("ann:right", HOME) == "ann"
            scene.clock.advance(11.0)

    def test_a_password_that_was_changed_is_no_longer_familiar(self, monkeypatch: Any) -> None:
        """It waits as any wrong one does."""
        scene = Scene()
        assert scene.come("ann:right", HOME) == "ann"
        scene.clock.advance(11.0)
        monkeypatch.delitem(GOOD, "ann:right")
        assert scene.come("ann:right", HOME, after_s=0.5) is Code.AUTHENTICATION
        assert not scene.admission.knows("ann:right")

    @pytest.mark.parametrize("took_s", [0.0, 0.01, 0.3, 0.49])
    def test_the_time_of_a_refusal_does_not_tell_whether_the_user_exists(
        self, took_s: float
    ) -> None:
        """However long OpenNebula takes, the answer comes at the same time."""
        scene = Scene()
        scene.one.hangs = True
        outcome: list[Any] = []
        door = scene.admission.admitted("ann:wrong", HOME, _nothing)
        running = Deferred.fromCoroutine(door)
        running.addCallbacks(outcome.append, lambda failure: outcome.append(_said(failure.value)))
        scene.clock.advance(took_s)
        scene.one.waiting[0].callback([False, "[one.user.info] wrong", 256, -1, -1])
        scene.clock.advance(0.499 - took_s)
        assert outcome == []
        scene.clock.advance(0.002)
        assert outcome == [Code.AUTHENTICATION]

    def test_refusals_that_wait_hold_no_turn(self) -> None:
        """A user signs in meanwhile, from the same address too."""
        scene = Scene()
        for number in range(50):
            scene.come(f"x{number}:wrong", EVIL)
        assert scene.come("ann:right", EVIL) in {"ann", Code.ACTION}
        assert scene.come("bob:right", HOME) == "bob"


class TestTextsOfStrangers:
    def test_a_long_name_leaves_nothing_behind(self) -> None:
        """A refused login keeps a few bytes of memory, however long the text that was sent."""
        scene = Scene(address_calls=1e6)
        for number in range(100):
            scene.come(f"{number:03d}{'x' * 1_000}:y", EVIL)
            scene.come(f"{number}{'x' * 200_000}:y", EVIL)
            scene.clock.advance(1.0)
        scene.one.asked.clear()
        assert _texts_of(scene.admission) < 10_000

    @pytest.mark.parametrize("text", ["", "ann", f"ann:{'x' * 2_000}", "ann:\x00"])
    def test_what_is_no_login_makes_no_user_wait(self, text: str) -> None:
        """A text that is no login is refused like a wrong one, and counts for its address alone."""
        scene = Scene(address_calls=1e6)
        for _ in range(20):
            assert scene.come(text, HOME, after_s=0.5) is Code.AUTHENTICATION
        assert scene.come("ann:wrong", HOME, after_s=0.5) is Code.AUTHENTICATION
        assert scene.one.asked == ["ann:wrong"]
        few = Scene(address_calls=10.0, burst_s=1.0)
        few.come(text, HOME)
        assert few.come("new:one", HOME) is Code.ACTION

    def test_a_user_that_is_not_tried_again_is_forgotten(self) -> None:
        """After fifteen minutes nothing is kept of a name, whether it was tried again or not."""
        wrong = WrongPasswords()
        for number in range(1_000):
            wrong.count(f"x{number}", EVIL, 0.0)
        wrong.count("ann", EVIL, 1_000.0)
        assert len(wrong) == 1


def _texts_of(root: object) -> int:
    """Return the characters of all texts that an object holds, at any depth."""
    found: dict[int, object] = {}
    todo = [root]
    while todo:
        one = todo.pop()
        if id(one) in found or isinstance(one, type | ModuleType | FunctionType | Clock):
            continue
        found[id(one)] = one
        todo += gc.get_referents(one)
    return sum(len(one) for one in found.values() if isinstance(one, str))


class TestFloods:
    def test_strangers_use_up_their_address_and_no_user_there(self) -> None:
        """Who is known goes on where nobody new is let in."""
        scene = Scene(address_calls=10.0, burst_s=1.0)
        assert scene.come("ann:right", HOME) == "ann"
        for number in range(50):
            scene.come(f"x{number}:y", HOME)
        assert scene.come("new:one", HOME) is Code.ACTION
        assert scene.come("bob:right", CAFE) == "bob"
        for _ in range(40):
            assert scene.come("ann:right", HOME) == "ann"

    def test_a_user_over_its_own_limit_stops_nobody(self) -> None:
        """Neither at the same address nor elsewhere."""
        scene = Scene(user_calls=5.0, burst_s=1.0)
        assert scene.come("bob:right", HOME) == "bob"
        said = [scene.come("ann:right", HOME) for _ in range(100)]
        assert said.count("ann") == 5
        assert said.count(Code.ACTION) == 95
        assert scene.come("bob:right", HOME) == "bob"

    def test_slow_work_of_one_user_leaves_turns_for_the_others(self) -> None:
        """A user holds at most a quarter of them."""
        scene = Scene(in_flight=8, user_calls=1e6)

        for _ in range(50):
            assert scene.come("ann:right", HOME, scene.slow) is None
        assert scene.come("bob:right", HOME) == "bob"

    def test_one_doors_work_fills_no_other_door(self) -> None:
        """Calls that hang leave all turns to the page."""
        scene = Scene(in_flight=1)

        assert scene.come("ann:right", HOME, scene.slow) is None
        assert scene.come("bob:right", HOME) is None
        scene.admission = scene.admission.apart()
        assert scene.come("bob:right", HOME) == "bob"


class TestWhileOpenNebulaHangs:
    def test_known_users_are_answered_and_strangers_wait(self) -> None:
        """OpenNebula is asked for as many strangers as there are turns, four of one address."""
        scene = Scene(unknown_in_flight=8)
        assert scene.come("ann:right", HOME) == "ann"
        scene.one.hangs = True
        scene.one.asked.clear()
        for number in range(60):
            assert scene.come(f"x{number}:y", EVIL) is None
        assert len(scene.one.asked) == 4
        for number in range(4, 30):
            scene.come(f"x{number}:y", f"203.0.113.{number}")
        assert len(scene.one.asked) == 8
        for _ in range(40):
            assert scene.come("ann:right", HOME) == "ann"

    def test_familiar_users_are_asked_about_before_strangers(self) -> None:
        """Whose word is too old has a turn that no stranger holds."""
        scene = Scene(unknown_in_flight=2)
        assert scene.come("ann:right", HOME) == "ann"
        scene.clock.advance(11.0)
        scene.one.hangs = True
        for number in range(80):
            scene.come(f"x{number}:y", f"203.0.113.{number}")
        scene.one.hangs = False
        assert scene.come("ann:right", HOME) == "ann"

    def test_not_more_than_some_wait(self) -> None:
        """The others are told to come again; nothing is kept of them."""
        scene = Scene(unknown_in_flight=2)
        scene.one.hangs = True
        said = [scene.come(f"x{number}:y", f"203.0.113.{number}") for number in range(200)]
        assert said.count(None) == 66
        assert said.count(Code.ACTION) == 134

    @pytest.mark.parametrize("web", [False, True])
    def test_an_address_that_fills_the_queue_keeps_no_turn_from_another(self, web: bool) -> None:
        """However many of its calls wait: while a turn is free, another address begins at once.

        At the web page as well: both doors have one queue.
        """
        scene = Scene()
        scene.one.hangs = True
        for number in range(100):
            scene.come(f"x{number}:y", EVIL)
        scene.one.hangs = False
        if web:
            scene.admission = scene.admission.apart()
        assert scene.come("ann:right", HOME) == "ann"

    def test_an_address_that_fills_the_queue_makes_room_in_it(self) -> None:
        """Where all turns are taken too, another's call waits, and its newest is refused."""
        scene = Scene(unknown_in_flight=2)
        scene.one.hangs = True
        said: list[object] = []
        for number in range(60):
            self._come(scene, f"x{number}:y", EVIL, said)
        assert scene.come("y:y", CAFE) is None
        for number in range(60, 64):
            self._come(scene, f"x{number}:y", EVIL, said)
        assert said == []
        assert scene.come("bob:right", HOME) is None
        for _ in range(3):
            self._come(scene, "x:y", EVIL, said)
        assert [type(one) for one in said] == [TooManyRequestsError] * 3
        scene.one.waiting.pop(0).callback([False, "[one.user.info] wrong", 256, -1, -1])
        scene.one.waiting.pop(0).callback([False, "[one.user.info] wrong", 256, -1, -1])
        assert "bob:right" in scene.one.asked

    @staticmethod
    def _come(scene: Scene, session: str, address: str, said: list[object]) -> None:
        """Call, and note the error that the call ends with, at once or later."""
        door = scene.admission.admitted(session, address, _nothing)
        Deferred.fromCoroutine(door).addErrback(lambda failure: said.append(failure.value))


class TestTurns:
    @given(
        keys=st.lists(st.integers(0, 5), max_size=60),
        total=st.integers(1, 6),
        per_key=st.integers(1, 4),
        ends=st.lists(st.integers(0, 10**6), max_size=60),
    )
    def test_never_too_many_and_none_idle(
        self, keys: list[int], total: int, per_key: int, ends: list[int]
    ) -> None:
        """In all and of one key; while a turn is free, who waits has its part already."""
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
    def test_the_places_of_those_that_wait_are_shared(self, keys: list[int], waiting: int) -> None:
        """A key that was refused waits with as many as any other, or with one fewer."""
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

    def test_ten_thousand_at_once_do_not_nest(self) -> None:
        """Work that ends at once is done one after the other."""
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

    def test_who_leaves_the_queue_takes_no_turn(self) -> None:
        """And the others move up."""
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


class TestForwarded:
    proxies = TrustedProxies(["127.0.0.1", "10.0.0.0/8", "2001:db8::/32"])

    @given(peer=st.ip_addresses(), header=st.binary(max_size=60))
    def test_strangers_say_nothing_about_themselves(self, peer: Any, header: bytes) -> None:
        """Without a trusted proxy the header is ignored."""
        if not self.proxies.trust(str(peer)):
            assert self.proxies.caller(str(peer), [header]) == counted_address(str(peer))

    @given(said=st.binary(max_size=100), caller=st.ip_addresses(v=4))
    def test_what_the_caller_says_does_not_count(self, said: bytes, caller: Any) -> None:
        """Only what the proxy appended."""
        if not self.proxies.trust(str(caller)):
            header = said + b", " + str(caller).encode()
            assert self.proxies.caller("127.0.0.1", [header]) == str(caller)
            assert self.proxies.caller("127.0.0.1", [said, str(caller).encode()]) == str(caller)

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
    def test_headers_as_proxies_send_them(self, headers: list[bytes], caller: str) -> None:
        """The nearest address that is no trusted proxy."""
        assert self.proxies.caller("127.0.0.1", headers) == caller

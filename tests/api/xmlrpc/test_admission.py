"""Limits by user and by address: no attacker and no neighbour locks a legitimate user out."""

import gc
from collections.abc import Awaitable, Callable
from types import FunctionType, ModuleType
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from merkatd.api.http.admission import Admission, WrongPasswords
from merkatd.api.http.settings import ApiSettings
from merkatd.api.xmlrpc.dispatch import refusal_of
from merkatd.api.xmlrpc.errors import Code
from merkatd.scheduler.base.ports import CloudUnreachableError
from merkatd.service.base.callers import Caller
from merkatd.service.base.errors import RequestError
from merkatd.service.base.identity import SignIns

GOOD = {"ann:right": 2, "bob:right": 3}
HOME, CAFE, EVIL = "192.0.2.1", "192.0.2.2", "198.51.100.9"
_USER = "<USER><ID>{}</ID><GID>1</GID><NAME>{}</NAME></USER>"


class OpenNebula:
    """Knows two users; it can hang, or fail as while it elects a leader."""

    def __init__(self) -> None:
        self.hangs = False
        self.fails = False
        self.asked: list[str] = []
        self.waiting: list[Deferred[list[Any]]] = []

    async def call(self, _method: str, *arguments: Any) -> list[Any]:
        """Answer as `one.user.info` does."""
        session = str(arguments[0])
        self.asked.append(session)
        if self.hangs:
            never: Deferred[list[Any]] = Deferred()
            self.waiting.append(never)
            return await never
        if self.fails:
            return [False, "Cannot process request, no leader found", 2048, -1, -1]
        if session in GOOD:
            return [True, _USER.format(GOOD[session], session[:3]), 0]
        return [False, "[one.user.info] wrong", 256, -1, -1]


class Scene:
    """An admission with a clock."""

    def __init__(self, **settings: Any) -> None:
        self.clock = Clock()
        self.opennebula = OpenNebula()
        sign_ins = SignIns(self.opennebula, self.clock, kept_s=10.0, refusal_kept_s=2.0)
        self.admission = Admission(sign_ins, ApiSettings(**settings), self.clock)
        self._hanging: list[Deferred[None]] = []

    def come(
        self,
        session: str,
        address: str,
        work: Callable[[Caller], Awaitable[Any]] | None = None,
        after_s: float = 0.0,
    ) -> Any:
        """Return a call's result: a user name, a refusal's code, or None while it waits."""
        outcome: list[Any] = []

        async def name(caller: Caller) -> str:
            return caller.identity.name

        async def coming() -> Any:
            door = self.admission
            door.heed(address, door.wait_s(address), known=door.knows(session))
            return await door.admitted(session, address, work or name)

        running = Deferred.fromCoroutine(coming())
        running.addCallbacks(
            outcome.append, lambda failure: outcome.append(_code_of(failure.value))
        )
        if after_s:
            self.clock.advance(after_s)
        return outcome[0] if outcome else None

    async def slow(self, _caller: Caller) -> None:
        """Never return; no garbage collection ends it."""
        self._hanging.append(Deferred())
        await self._hanging[-1]


async def do_nothing(_caller: Caller) -> None:
    """Return immediately."""


def _code_of(error: BaseException) -> object:
    return refusal_of("", error).code if isinstance(error, RequestError) else error


class TestWrongPasswords:
    def test_each_wrong_password_waits_longer(self) -> None:
        """An hour of attempts makes some sixty calls to OpenNebula."""
        scene = Scene()
        for number in range(3_600):
            scene.come(f"ann:{number}", EVIL)
            scene.clock.advance(1.0)
        assert 50 < len(scene.opennebula.asked) < 90

    def test_who_tries_many_at_once_gains_nothing(self) -> None:
        """Sixty tries that arrive together are as few questions as sixty one after another."""
        scene = Scene()
        scene.opennebula.hangs = True
        asked = []
        for minute in range(5):
            before = len(scene.opennebula.asked)
            for number in range(60):
                scene.come(f"ann:{minute}-{number}", EVIL)
            while scene.opennebula.waiting:
                waiting, scene.opennebula.waiting = scene.opennebula.waiting, []
                for waiter in waiting:
                    waiter.callback([False, "[one.user.info] wrong", 256, -1, -1])
            asked.append(len(scene.opennebula.asked) - before)
            scene.clock.advance(61.0)
        assert asked[0] <= 12
        assert all(number <= 4 for number in asked[1:])

    def test_the_legitimate_user_signs_in_from_elsewhere_at_once(self) -> None:
        """This holds for any number of addresses and attempts."""
        scene = Scene()
        for number in range(500):
            scene.come(f"ann:{number}", f"198.51.100.{number % 250}")
        assert scene.come("ann:right", HOME) == "ann"

    def test_a_user_with_a_valid_login_continues_beside_the_attacker(self) -> None:
        """It may share the attacker's address, and OpenNebula may have to confirm it again."""
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
        assert scene.opennebula.asked.count("ann:right") == 2

    def test_a_neighbours_mistakes_block_no_user(self) -> None:
        """A program with an old password runs all day; others at its address sign in."""
        scene = Scene()
        for _ in range(2_000):
            scene.come("eve:old", HOME)
            scene.clock.advance(0.05)
        assert scene.come("eve:old", HOME) is Code.ACTION
        assert scene.come("ann:right", HOME) == "ann"
        assert scene.come("bob:right", HOME) == "bob"

    def test_a_typing_error_costs_no_wait(self) -> None:
        """The fifth attempt is checked at once, and the right one clears the count."""
        scene = Scene()
        for _ in range(20):
            for wrong in "abcd":
                assert scene.come(f"ann:{wrong}", HOME, after_s=0.5) is Code.AUTHENTICATION
            scene.clock.advance(10.0)
            assert scene.come("ann:right", HOME) == "ann"
            scene.clock.advance(11.0)

    def test_a_changed_password_is_no_longer_familiar(self, monkeypatch: Any) -> None:
        """It waits as any wrong one does."""
        scene = Scene()
        assert scene.come("ann:right", HOME) == "ann"
        scene.clock.advance(11.0)
        monkeypatch.delitem(GOOD, "ann:right")
        assert scene.come("ann:right", HOME, after_s=0.5) is Code.AUTHENTICATION
        assert not scene.admission.knows("ann:right")

    def test_a_failing_opennebula_makes_no_password_wrong(self) -> None:
        """Users learn that it fails; as soon as it is back, all of them come in."""
        scene = Scene()
        assert scene.come("ann:right", HOME) == "ann"
        scene.clock.advance(11.0)
        scene.opennebula.fails = True
        for session in ("ann:right", "bob:right") * 20:
            answer = scene.come(session, HOME, after_s=0.5)
            assert isinstance(answer, CloudUnreachableError)
            assert "no leader found" in str(answer)
        scene.opennebula.fails = False
        assert scene.come("ann:right", HOME) == "ann"
        assert scene.come("bob:right", HOME) == "bob"

    @pytest.mark.parametrize("took_s", [0.0, 0.01, 0.3, 0.49])
    def test_the_time_of_a_refusal_does_not_reveal_whether_the_user_exists(
        self, took_s: float
    ) -> None:
        """The answer comes at the same time, whatever OpenNebula's duration."""
        scene = Scene()
        scene.opennebula.hangs = True
        outcome: list[Any] = []
        door = scene.admission.admitted("ann:wrong", HOME, do_nothing)
        running = Deferred.fromCoroutine(door)
        running.addCallbacks(
            outcome.append, lambda failure: outcome.append(_code_of(failure.value))
        )
        scene.clock.advance(took_s)
        scene.opennebula.waiting[0].callback([False, "[one.user.info] wrong", 256, -1, -1])
        scene.clock.advance(0.499 - took_s)
        assert outcome == []
        scene.clock.advance(0.002)
        assert outcome == [Code.AUTHENTICATION]

    def test_waiting_refusals_hold_no_turn(self) -> None:
        """A user signs in meanwhile, also from the same address."""
        scene = Scene()
        for number in range(50):
            scene.come(f"x{number}:wrong", EVIL)
        assert scene.come("ann:right", EVIL) in {"ann", Code.ACTION}
        assert scene.come("bob:right", HOME) == "bob"


class TestTextsOfStrangers:
    def test_a_long_name_uses_no_memory(self) -> None:
        """A refused login keeps a few bytes, whatever the length of its text."""
        scene = Scene(address_calls=1e6)
        for number in range(100):
            scene.come(f"{number:03d}{'x' * 1_000}:y", EVIL)
            scene.come(f"{number}{'x' * 200_000}:y", EVIL)
            scene.clock.advance(1.0)
        scene.opennebula.asked.clear()
        assert _texts_of(scene.admission) < 10_000

    @pytest.mark.parametrize("text", ["", "ann", f"ann:{'x' * 2_000}", "ann:\x00"])
    def test_an_invalid_login_makes_no_user_wait(self, text: str) -> None:
        """It is refused like a wrong one, and counts only for its address."""
        scene = Scene(address_calls=1e6)
        for _ in range(20):
            assert scene.come(text, HOME, after_s=0.5) is Code.AUTHENTICATION
        assert scene.come("ann:wrong", HOME, after_s=0.5) is Code.AUTHENTICATION
        assert scene.opennebula.asked == ["ann:wrong"]
        few = Scene(address_calls=10.0, burst_s=1.0)
        few.come(text, HOME)
        assert few.come("new:one", HOME) is Code.ACTION

    def test_a_user_that_is_not_tried_again_is_forgotten(self) -> None:
        """After fifteen minutes no name is kept, whether it was tried again or not."""
        wrong = WrongPasswords()
        for number in range(1_000):
            wrong.count(f"x{number}", EVIL, 0.0)
        wrong.count("ann", EVIL, 1_000.0)
        assert len(wrong) == 1


def _texts_of(root: object) -> int:
    """Return the characters of all texts that an object holds, at any depth."""
    seen: dict[int, object] = {}
    todo = [root]
    while todo:
        thing = todo.pop()
        if id(thing) in seen or isinstance(thing, type | ModuleType | FunctionType | Clock):
            continue
        seen[id(thing)] = thing
        todo += gc.get_referents(thing)
    return sum(len(thing) for thing in seen.values() if isinstance(thing, str))


class TestFloods:
    def test_strangers_use_up_their_address_but_block_no_user_there(self) -> None:
        """Known users continue where new ones are refused."""
        scene = Scene(address_calls=10.0, burst_s=1.0)
        assert scene.come("ann:right", HOME) == "ann"
        for number in range(50):
            scene.come(f"x{number}:y", HOME)
        assert scene.come("new:one", HOME) is Code.ACTION
        assert scene.come("bob:right", CAFE) == "bob"
        for _ in range(40):
            assert scene.come("ann:right", HOME) == "ann"

    def test_a_user_over_its_own_limit_blocks_no_other(self) -> None:
        """This holds for the same address and for others."""
        scene = Scene(user_calls=5.0, burst_s=1.0)
        assert scene.come("bob:right", HOME) == "bob"
        answers = [scene.come("ann:right", HOME) for _ in range(100)]
        assert answers.count("ann") == 5
        assert answers.count(Code.ACTION) == 95
        assert scene.come("bob:right", HOME) == "bob"

    def test_slow_work_of_one_user_leaves_turns_for_others(self) -> None:
        """A user holds at most a quarter of the turns."""
        scene = Scene(in_flight=8, user_calls=1e6)

        for _ in range(50):
            assert scene.come("ann:right", HOME, scene.slow) is None
        assert scene.come("bob:right", HOME) == "bob"

    def test_work_of_one_interface_fills_no_other(self) -> None:
        """Hanging calls leave all turns to the page."""
        scene = Scene(in_flight=1)

        assert scene.come("ann:right", HOME, scene.slow) is None
        assert scene.come("bob:right", HOME) is None
        scene.admission = scene.admission.apart()
        assert scene.come("bob:right", HOME) == "bob"

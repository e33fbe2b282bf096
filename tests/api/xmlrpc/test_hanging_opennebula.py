"""While OpenNebula hangs, known users are served, and strangers wait in a bounded queue."""

import pytest
from twisted.internet.defer import Deferred

from merkatd.api.xmlrpc.errors import Code
from merkatd.service.base.errors import TooManyRequestsError
from tests.api.xmlrpc.test_admission import CAFE, EVIL, HOME, Scene, do_nothing


class TestWhileOpenNebulaHangs:
    def test_known_users_are_answered_and_strangers_wait(self) -> None:
        """OpenNebula gets as many strangers as there are turns, four of one address."""
        scene = Scene(unknown_in_flight=8)
        assert scene.come("ann:right", HOME) == "ann"
        scene.opennebula.hangs = True
        scene.opennebula.asked.clear()
        for number in range(60):
            assert scene.come(f"x{number}:y", EVIL) is None
        assert len(scene.opennebula.asked) == 4
        for number in range(4, 30):
            scene.come(f"x{number}:y", f"203.0.113.{number}")
        assert len(scene.opennebula.asked) == 8
        for _ in range(40):
            assert scene.come("ann:right", HOME) == "ann"

    def test_familiar_users_are_checked_before_strangers(self) -> None:
        """A user with an expired login has a turn that no stranger holds."""
        scene = Scene(unknown_in_flight=2)
        assert scene.come("ann:right", HOME) == "ann"
        scene.clock.advance(11.0)
        scene.opennebula.hangs = True
        for number in range(80):
            scene.come(f"x{number}:y", f"203.0.113.{number}")
        scene.opennebula.hangs = False
        assert scene.come("ann:right", HOME) == "ann"

    def test_the_number_of_waiting_calls_is_bounded(self) -> None:
        """The others are refused with a request to retry and use no memory."""
        scene = Scene(unknown_in_flight=2)
        scene.opennebula.hangs = True
        answers = [scene.come(f"x{number}:y", f"203.0.113.{number}") for number in range(200)]
        assert answers.count(None) == 66
        assert answers.count(Code.ACTION) == 134

    @pytest.mark.parametrize("web", [False, True])
    def test_an_address_that_fills_the_queue_takes_no_turn_of_another(self, web: bool) -> None:
        """Another address starts at once while a turn is free.

        This holds at the web page too: both interfaces share one queue.
        """
        scene = Scene()
        scene.opennebula.hangs = True
        for number in range(100):
            scene.come(f"x{number}:y", EVIL)
        scene.opennebula.hangs = False
        if web:
            scene.admission = scene.admission.apart()
        assert scene.come("ann:right", HOME) == "ann"

    def test_an_address_that_fills_the_queue_makes_room_in_it(self) -> None:
        """If all turns are taken, another address waits and the flood's newest call is refused."""
        scene = Scene(unknown_in_flight=2)
        scene.opennebula.hangs = True
        answers: list[object] = []
        for number in range(60):
            self._come(scene, f"x{number}:y", EVIL, answers)
        assert scene.come("y:y", CAFE) is None
        for number in range(60, 64):
            self._come(scene, f"x{number}:y", EVIL, answers)
        assert answers == []
        assert scene.come("bob:right", HOME) is None
        for _ in range(3):
            self._come(scene, "x:y", EVIL, answers)
        assert [type(error) for error in answers] == [TooManyRequestsError] * 3
        scene.opennebula.waiting.pop(0).callback([False, "[one.user.info] wrong", 256, -1, -1])
        scene.opennebula.waiting.pop(0).callback([False, "[one.user.info] wrong", 256, -1, -1])
        assert "bob:right" in scene.opennebula.asked

    @staticmethod
    def _come(scene: Scene, session: str, address: str, answers: list[object]) -> None:
        """Make a call and record its error, at once or later."""
        door = scene.admission.admitted(session, address, do_nothing)
        Deferred.fromCoroutine(door).addErrback(lambda failure: answers.append(failure.value))

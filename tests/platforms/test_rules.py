"""Pure rules: conditions, states of life, orders of the fleet, the first bid."""

from collections import Counter
from dataclasses import replace
from math import inf, isclose

from hypothesis import assume, given
from hypothesis import strategies as st

from merkatd.cluster import Create, Resume, Step, Suspend, Terminate, VmState
from merkatd.database.fleets.fleet_store import PlatformMember
from merkatd.platforms.lifecycle.fleet_plan import (
    FleetChange,
    PlatformFleetView,
    fleet_change,
    lost_members,
)
from merkatd.platforms.rules.first_bids import first_bid, reference_price
from merkatd.platforms.rules.lifecycle_events import (
    ENDS,
    UP_OR_COMING,
    WAITING,
    Event,
    PlatformState,
    leads_to,
)
from merkatd.platforms.rules.start_conditions import (
    MarketOffer,
    StartAnswer,
    Terms,
    judge_start,
    least_deadline_s,
)
from merkatd.policies.deadline import Funds

NOW_S = 1_000_000.0
amounts = st.floats(0.01, 1000.0)


@st.composite
def terms_and_offers(draw: st.DrawFn) -> tuple[Terms, MarketOffer]:
    """Draw a platform with work, a budget with or without replenishment, and prices."""
    renewal = draw(st.sampled_from([0.0, 5.0, 300.0]))
    terms = Terms(
        deadline_s=NOW_S + draw(st.floats(60.0, 1e6)),
        ideal_s=draw(st.floats(60.0, 1e5)),
        price_ceiling={},
        full={"cpu": draw(amounts), "memory": draw(amounts)},
        purse=Funds(
            credits=draw(st.floats(0.0, 1e6)),
            renewal=renewal,
            renewal_s=3600.0 if renewal else inf,
        ),
    )
    prices = {"cpu": draw(st.floats(0.0, 2.0)), "memory": draw(st.floats(0.0, 0.1))}
    return terms, MarketOffer(now_s=NOW_S, interval_s=60.0, prices=prices)


def with_deadline(terms: Terms, left_s: float) -> Terms:
    """Return the same terms with a deadline after this time."""
    return Terms(
        deadline_s=NOW_S + left_s,
        ideal_s=terms.ideal_s,
        price_ceiling={},
        full=terms.full,
        purse=terms.purse,
    )


class TestConditions:
    @given(terms_and_offers())
    def test_the_least_deadline_is_exact(self, given_: tuple[Terms, MarketOffer]) -> None:
        """With it the platform starts, and with an earlier one it does not."""
        terms, offer = given_
        least_s = least_deadline_s(terms, offer)
        if least_s is None:
            far = with_deadline(terms, 1e9)
            assert judge_start(far, offer).answer is not StartAnswer.START
            return
        assert judge_start(with_deadline(terms, least_s * 1.001), offer).answer is StartAnswer.START
        assume(not isclose(least_s, 60.0))
        assert (
            judge_start(with_deadline(terms, least_s * 0.99), offer).answer is not StartAnswer.START
        )

    @given(terms_and_offers())
    def test_a_platform_waits_only_if_it_can_still_succeed(
        self, given_: tuple[Terms, MarketOffer]
    ) -> None:
        """With less time than the ideal run it is cancelled, and it names its needs."""
        terms, offer = given_
        judgement = judge_start(terms, offer)
        late = (terms.deadline_s or 0.0) - NOW_S < (terms.ideal_s or 0.0)
        assert (judgement.answer is StartAnswer.CANCEL) == late
        assert bool(judgement.needs) == (judgement.answer is not StartAnswer.START)

    @given(terms_and_offers(), st.sampled_from([1e300, 1e306, 1.7e308]))
    def test_any_reported_work_has_a_verdict(
        self, given_: tuple[Terms, MarketOffer], ideal_s: float
    ) -> None:
        """A controller may report any finite time for the rest of its work."""
        terms, offer = given_
        judgement = judge_start(replace(terms, ideal_s=ideal_s), offer)
        assert judgement.answer is StartAnswer.CANCEL
        assert judgement.needs.startswith("no deadline")

    @given(terms_and_offers(), st.floats(0.5, 2.0))
    def test_lower_prices_never_prevent_a_start(
        self, given_: tuple[Terms, MarketOffer], factor: float
    ) -> None:
        """A platform that may start may start at a lower price too."""
        terms, offer = given_
        prices = {name: price * min(factor, 1 / factor) for name, price in offer.prices.items()}  # type: ignore[union-attr]
        cheaper = MarketOffer(now_s=NOW_S, interval_s=60.0, prices=prices)
        if judge_start(terms, offer).answer is StartAnswer.START:
            assert judge_start(terms, cheaper).answer is StartAnswer.START


class TestLife:
    @given(st.lists(st.sampled_from(Event), max_size=30), st.sampled_from(ENDS))
    def test_any_events_lead_to_valid_states(
        self, events: list[Event], ending: PlatformState
    ) -> None:
        """Ended platforms stay ended, and platforms with VMs end only through stopping."""
        state = PlatformState.SUBMITTED
        for event in events:
            after = leads_to(state, event, ending)
            if after is None:
                continue
            assert state not in ENDS
            if after in ENDS:
                assert state is PlatformState.STOPPING or state in WAITING
            if after is PlatformState.RUNNING:
                assert state in {
                    PlatformState.STARTING,
                    PlatformState.QUEUED,
                    PlatformState.RESUMING,
                }
            state = after

    def test_every_state_can_be_reached_and_stopped(self) -> None:
        """Each state is reachable from submitted, and leads to an end."""
        reached = {PlatformState.SUBMITTED}
        for _ in PlatformState:
            reached |= {
                after
                for state in reached
                for event in Event
                for ending in ENDS
                if (after := leads_to(state, event, ending)) is not None
            }
        assert reached == set(PlatformState)
        for state in set(PlatformState) - {*ENDS, PlatformState.STOPPING}:
            assert leads_to(state, Event.STOP, PlatformState.DONE) in {
                PlatformState.STOPPING,
                PlatformState.DONE,
            }


@st.composite
def fleets(draw: st.DrawFn) -> tuple[list[PlatformMember], PlatformFleetView]:
    """Draw members of two clusters, created or not, and the observation of them."""
    members, states, creating = [], {}, set()
    for number in range(1, draw(st.integers(0, 8)) + 1):
        made = draw(st.booleans())
        key = f"k{number}"
        members.append(
            PlatformMember(
                key=key,
                platform=1,
                cluster=draw(st.sampled_from("ab")),
                number=number,
                vm=number if made else None,
                leaving=draw(st.booleans()),
            )
        )
        if made and draw(st.integers(0, 4)):
            states[number] = draw(st.sampled_from(VmState))
        if not made and draw(st.booleans()):
            creating.add(key)
    return members, PlatformFleetView(
        period=7, at_s=420.0, interval_s=60.0, states=states, creating=creating
    )


def new_member(cluster: str, at: int) -> PlatformMember:
    """Return another member."""
    return PlatformMember(key=f"n{at}", platform=1, cluster=cluster, number=100 + at)


def make_create(member: PlatformMember) -> Create:
    """Return its step."""
    return Create(period=7, key=member.key, template="", owner=1, reason="")


def change_of(
    state: PlatformState,
    sizes: dict[str, int],
    members: list[PlatformMember],
    sight: PlatformFleetView,
    room: int = 100,
) -> FleetChange:
    """Return the change of the fleet."""
    return fleet_change(
        state, sizes, members, sight, new=new_member, make=make_create, may_resume=True, room=room
    )


class TestFleet:
    @given(
        fleets(), st.sampled_from(PlatformState), st.fixed_dictionaries({"a": st.integers(0, 4)})
    )
    def test_steps_fit_the_observation(
        self,
        fleet: tuple[list[PlatformMember], PlatformFleetView],
        state: PlatformState,
        sizes: dict[str, int],
    ) -> None:
        """Each VM has at most one step, busy and gone ones none, and the size is as ordered."""
        known, sight = fleet
        gone = set(lost_members(known, sight))
        members = [member for member in known if member.key not in gone]
        change = change_of(state, sizes, members, sight)
        subjects = [step.subject for step in change.steps]
        assert len(set(subjects)) == len(subjects)
        for step in change.steps:
            assert_possible(step, sight)
        kept = [member for member in (*members, *change.add) if not member.leaving]
        kept = [member for member in kept if member.key not in change.leave]
        if state in UP_OR_COMING:
            assert Counter(member.cluster for member in kept) == Counter(
                {name: size for name, size in sizes.items() if size}
            )
        elif state in {*ENDS, PlatformState.STOPPING}:
            assert kept == []

    @given(fleets(), st.sampled_from(PlatformState))
    def test_vms_in_a_limit_order_are_saved_and_never_ended_while_they_wait(
        self, fleet: tuple[list[PlatformMember], PlatformFleetView], state: PlatformState
    ) -> None:
        """Until the platform ends, a pending VM may have run before, and its order resumes it."""
        known, seen = fleet
        saved = {vm for vm, state in seen.states.items() if state is VmState.ABSENT}
        sight = replace(seen, stopped=saved, saved=saved)
        members = [one for one in known if one.key not in lost_members(known, sight)]
        sizes = Counter(one.cluster for one in members if not one.leaving)
        found = fleet_change(
            state,
            sizes,
            members,
            sight,
            new=new_member,
            make=make_create,
            may_resume=True,
            room=100,
            ordered=True,
        )
        leaving = {one.vm for one in members if one.leaving}
        if state not in {*ENDS, PlatformState.STOPPING}:
            ended = {step.vm for step in found.steps if isinstance(step, Terminate)}
            assert ended <= leaving
        assert not any(isinstance(step, Suspend) for step in found.steps)
        assert not saved & {step.vm for step in found.steps if isinstance(step, Resume)}

    @given(fleets(), st.integers(0, 3))
    def test_creations_respect_the_room(
        self, fleet: tuple[list[PlatformMember], PlatformFleetView], room: int
    ) -> None:
        """The first creations are kept, and only their members are added."""
        known, sight = fleet
        members = [member for member in known if member.key not in lost_members(known, sight)]
        all_, some = (
            change_of(PlatformState.RUNNING, {"a": 3, "b": 2}, members, sight, room=room)
            for room in (100, room)
        )
        made, fewer = (
            [step for step in change.steps if isinstance(step, Create)] for change in (all_, some)
        )
        assert fewer == made[:room]
        assert {member.key for member in some.add} <= {step.key for step in fewer}
        others = [[s for s in change.steps if not isinstance(s, Create)] for change in (all_, some)]
        assert (others[1], some.leave) == (others[0], all_.leave)

    @given(fleets())
    def test_a_repeated_change_is_the_same(
        self, fleet: tuple[list[PlatformMember], PlatformFleetView]
    ) -> None:
        """Stored changes that were not executed are repeated with the same keys."""
        known, sight = fleet
        members = [member for member in known if member.key not in lost_members(known, sight)]
        sizes = {"a": 2, "b": 1}
        first = change_of(PlatformState.RUNNING, sizes, members, sight)
        stored = [
            PlatformMember(
                key=member.key,
                platform=1,
                cluster=member.cluster,
                number=member.number,
                vm=member.vm,
                leaving=member.leaving or member.key in first.leave,
            )
            for member in (*members, *first.add)
        ]
        gone = lost_members(stored, sight)
        again = change_of(
            PlatformState.RUNNING,
            sizes,
            [member for member in stored if member.key not in gone],
            sight,
        )
        assert again.add == ()
        assert {step.id for step in again.steps} == {step.id for step in first.steps}


def assert_possible(step: Step, sight: PlatformFleetView) -> None:
    """Check that the step fits the observed state of its VM."""
    if isinstance(step, Create):
        assert step.key not in sight.creating
        return
    wanted = {
        "suspend": {VmState.RUNNING},
        "resume": {VmState.SUSPENDED},
        "terminate": set(VmState) - {VmState.BUSY},
    }
    assert sight.states[step.vm] in wanted[step.kind]
    assert isinstance(step, Terminate) or step.kind in wanted


class TestFirstBid:
    def test_the_first_bid_buys_all_usable_units(self) -> None:
        """It uses the higher of present and past prices; goods without a price have defaults."""
        price = reference_price(0.03, [0.01, 0.03, inf])
        assert price == 0.03
        bid = first_bid(
            {"cpu": price, "memory": 0.0}, {"cpu": 200, "memory": 64}, {"memory": 1}, 99
        )
        assert bid == {"cpu": 6.0, "memory": 1.0}
        assert reference_price(0.01, [0.03, 0.05]) == 0.04

    @given(amounts, amounts, amounts)
    def test_the_first_bid_never_exceeds_the_limit(
        self, price: float, units: float, most: float
    ) -> None:
        """The limit applies to the sum over resources."""
        bid = first_bid({"cpu": price, "memory": price}, {"cpu": units, "memory": units}, {}, most)
        assert sum(bid.values()) <= most * (1 + 1e-9)

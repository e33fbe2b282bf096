"""A market of one VM and constant others, for policies to act in."""

from dataclasses import dataclass

from merkatd.policies.vertical import (
    AdaptedBids,
    Amounts,
    Performance,
    SpendingLimit,
    VmPosition,
    adapt,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """Others bid the same all the time; an iteration takes as long as its scarcest resource."""

    others: Amounts
    """What the others bid in all."""
    capacity: Amounts
    most: Amounts
    least: Amounts
    ideal_s: float = 1.0
    reference_s: float = 2.0
    share_needed: Amounts = (1.0, 0.0)
    """The part of the maximum below which a resource slows the application down."""

    def allocation(self, bid: Amounts) -> Amounts:
        """Eq. 1, for one VM against the others."""
        return tuple(
            min(most, capacity * b / (b + others)) if b + others > 0 else 0.0
            for b, others, capacity, most in zip(
                bid, self.others, self.capacity, self.most, strict=True
            )
        )

    def keeping(self) -> Amounts:
        """The least bid that gets the maximum."""
        return tuple(
            others * most / (capacity - most)
            for others, capacity, most in zip(self.others, self.capacity, self.most, strict=True)
        )

    def step_s(self, allocation: Amounts) -> float:
        """How long an iteration takes."""
        slowest = max(
            needed * most / max(got, 1e-12)
            for needed, most, got in zip(self.share_needed, self.most, allocation, strict=True)
        )
        return self.ideal_s * max(1.0, slowest)

    def performance(self, bid: Amounts) -> Performance:
        """With the paper's thresholds."""
        return Performance(
            value=self.step_s(self.allocation(bid)),
            reference=self.reference_s,
            low=0.75 * self.reference_s,
            high=0.95 * self.reference_s,
        )

    def played(self, bid: Amounts, means: SpendingLimit, steps: int) -> list[Amounts]:
        """The bids of so many periods."""
        bids, known = [bid], AdaptedBids(bid, ())
        for _ in range(steps):
            standing = VmPosition(
                bid=known.bid,
                allocation=self.allocation(known.bid),
                least=self.least,
                most=self.most,
                keeping=self.keeping(),
            )
            known = adapt(standing, self.performance(known.bid), means, known.traces)
            bids.append(known.bid)
        return bids

"""Change points: the best division of a series into parts with constant values. Exact.

# Note [Best division]
The cost of a division is the squared distance of all values from the mean of their part, plus
`penalty` for each part. The least cost of the first n points is the least, over all m < n, of the
cost of the first m points and the part from m to n. So a table over n finds the best division with
as many steps as there are pairs of points, for each number of parts.

Example: 1 1 1 5 5 with a penalty of 2 has the parts 1 1 1 and 5 5, at the cost 4. One part would
cost 19.2 + 2, three parts would cost 6.
"""

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

MOST_POINTS: Final = 240
"""The most points of a series, as the time grows with their square."""

Column = Sequence[float]


def divide(
    columns: Sequence[Column], penalty: float, most_parts: int, least_points: int = 1
) -> tuple[int, ...]:
    """Return the ends of the parts of the best division, of at most `most_parts` parts.

    Each part has at least `least_points` points, unless the series is shorter.

    Each column has a value for each point; the squared distances of all columns are added. Of equal
    divisions, the one with fewer parts is returned. Raise ValueError for too many points.
    """
    count = len(columns[0])
    if count > MOST_POINTS:
        raise ValueError(f"a series must have at most {MOST_POINTS} points (got {count})")
    costs = _part_costs(columns, count)
    best = [0.0] + [math.inf] * count
    froms: list[list[int]] = []
    chosen, least = 0, math.inf
    least_points = min(least_points, count)
    for parts in range(1, min(most_parts, count // max(least_points, 1)) + 1):
        row, origin = [math.inf] * (count + 1), [0] * (count + 1)
        for end in range(parts * least_points, count + 1):
            before = costs[end]
            for start in range((parts - 1) * least_points, end - least_points + 1):
                cost = best[start] + before[start]
                if cost < row[end]:
                    row[end], origin[end] = cost, start
        best = row
        froms.append(origin)
        if best[count] + penalty * parts < least:
            chosen, least = parts, best[count] + penalty * parts
    ends = []
    end = count
    for origin in reversed(froms[:chosen]):
        ends.append(end)
        end = origin[end]
    return tuple(reversed(ends))


def _part_costs(columns: Sequence[Column], count: int) -> list[list[float]]:
    """Return [end][start]: the cost of the part from start to end."""
    costs = [[0.0] * end for end in range(count + 1)]
    for column in columns:
        middle = math.fsum(column) / count if count else 0.0
        # Sums of small numbers: the values are around zero.
        centred = [value - middle for value in column]
        sums = [0.0, *accumulate(centred)]
        squares = [0.0, *accumulate(value * value for value in centred)]
        for end in range(1, count + 1):
            row = costs[end]
            for start in range(end):
                total = sums[end] - sums[start]
                rest = squares[end] - squares[start] - total * total / (end - start)
                row[start] += max(rest, 0.0)
    return costs

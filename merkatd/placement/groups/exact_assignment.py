"""The exact assignment: each row gets a column of its own, with the largest sum of values.

# Note [Shortest augmenting paths]

Rows are added one by one. A new row takes a free column at the end of the cheapest path that
alternates between columns and the rows that have them: each row on the path gives its column to
the row before it. Prices of rows and columns keep the costs along a path at zero or more, so that
Dijkstra's algorithm finds it (Jonker and Volgenant 1987; Crouse 2016).

Example: values [[5, 4], [5, 0]]. Row 0 takes column 0. Row 1 loses 5 if it takes column 1; if it
takes column 0 and row 0 goes on to column 1, only 1 is lost. The sum is 4 + 5.

Of equally good assignments it returns the one that scipy's `linear_sum_assignment` returns: columns
are searched in the same order, and of equally near columns it takes the last free one, or the first
if none is free. Used by `assign_to_hosts`.
"""

import numpy as np

from merkatd.cluster import Floats, Ints
from merkatd.placement.base.compiled import compiled


@compiled
def best_columns(value: Floats) -> Ints:
    """Return [rows]: the column of each row. `value` is [rows, columns], as many of each."""
    size = value.shape[0]
    row_price = np.zeros(size)
    column_price = np.zeros(size)
    column_of = np.full(size, -1)
    row_of = np.full(size, -1)
    before = np.full(size, -1)
    distance = np.empty(size)
    left = np.empty(size, dtype=np.int64)
    for row in range(size):
        free, reached, far = _nearest_free_column(
            value, row, row_price, column_price, row_of, before, distance, left
        )
        # The columns that the search reached stand behind those that it left.
        row_price[row] += far
        for at in range(reached, size):
            column = left[at]
            if row_of[column] >= 0:
                row_price[row_of[column]] += far - distance[column]
            column_price[column] -= far - distance[column]
        column = free
        while column >= 0:
            giver = before[column]
            row_of[column] = giver
            column, column_of[giver] = column_of[giver], column
    return column_of


@compiled
def _nearest_free_column(
    value: Floats,
    start: int,
    row_price: Floats,
    column_price: Floats,
    row_of: Ints,
    before: Ints,
    distance: Floats,
    left: Ints,
) -> tuple[int, int, float]:
    """Find the shortest path from the row to a free column, and write it to `before`.

    Return the column, the number of columns left in `left`, and the path's length. `distance` has
    the lengths of the paths to the columns that were reached; they stand in the rest of `left`.
    """
    size = len(left)
    for column in range(size):
        left[column] = size - 1 - column
        distance[column] = np.inf
    row = start
    far = 0.0
    for reached in range(size):
        nearest = -1
        least = np.inf
        for at in range(size - reached):
            column = left[at]
            length = far - value[row, column] - row_price[row] - column_price[column]
            if length < distance[column]:
                before[column] = row
                distance[column] = length
            if distance[column] < least or (distance[column] == least and row_of[column] < 0):
                least = distance[column]
                nearest = at
        far = least
        column = left[nearest]
        last = size - reached - 1
        left[nearest], left[last] = left[last], column
        if row_of[column] < 0:
            return column, last, far
        row = row_of[column]
    return -1, 0, far

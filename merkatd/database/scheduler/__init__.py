"""Tables of the scheduler: periods, steps, plans, prices, bids, orders and the lease."""

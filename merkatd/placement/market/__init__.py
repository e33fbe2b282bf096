"""The common parts of strategies that divide hosts by bids."""

"""Prices, bids, quotes and what explains them."""

"""Questions about prices, bids, quotes, limits and plans, and explanations of them."""

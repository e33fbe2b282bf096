"""Shares, allocation error, price and charge: the proportional-share market.

Pure arithmetic on arrays, for any number of resources, for all hosts at once.
"""

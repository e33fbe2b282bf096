"""The proportional-share market: shares, allocation errors, prices and charges.

Pure arithmetic on arrays, for any number of resources and for all hosts at once.
"""

"""Commands whose answers are reports: months, shares, free capacity, changed clouds."""

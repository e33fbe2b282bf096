"""The foundation of all packages: parsing and formatting of values, clocks, waiting, retries."""

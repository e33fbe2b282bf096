"""Other schedulers to be measured against, each written as well as it can be."""

"""The words of command lines: their order, and suggestions for misspelled ones."""

"""The charges of a period: running time, amounts owed, and the bill."""

"""How results are shown: text, CSV, plots."""

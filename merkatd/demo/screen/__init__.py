"""The screen of a demo: lines, colours and frames for a terminal."""

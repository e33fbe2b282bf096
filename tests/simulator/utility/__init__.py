"""Tests of the utility-placement paper's evaluation."""

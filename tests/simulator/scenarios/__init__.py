"""Tests of the scenarios of whole data centres."""

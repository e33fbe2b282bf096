"""Utility: how satisfied jobs and services are with a power of CPU, and which power they need."""

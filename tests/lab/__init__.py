"""Simulated hosts for tests, on one machine: see ``lab.py``; by hand ``python -m tests.lab up``."""

"""The training benchmark over hosts: what is ordered, in which turns, and what came of it."""

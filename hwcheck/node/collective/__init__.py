"""Collectives: legs, ranks, timing, verification of data, the wall clock."""

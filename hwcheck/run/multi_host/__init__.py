"""Collectives over several hosts: pairs, the whole set, rails; who is to blame."""

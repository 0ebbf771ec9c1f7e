"""One host's part in collectives over several hosts."""

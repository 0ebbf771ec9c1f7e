"""Which host is asked what, and the visits to all of them."""

"""Training steps of a transformer by every strategy: model, strategies, ranks, parity, timing."""

"""What the roles promise, asserted on the nodes: testinfra tests and their pytest plugin."""

"""What a node's files and programs say of it."""

"""What several checks know in common."""

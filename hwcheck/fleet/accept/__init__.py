"""Post-install acceptance: criteria, what shows each of them, progress host by host, the record."""

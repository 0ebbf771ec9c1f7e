"""One file per command: arguments, wiring, exit code; no logic."""

"""The run folder: what is written, read back and checked."""

"""NVML: the one place that talks to it, and what the checks are handed of it."""

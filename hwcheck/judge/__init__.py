"""From samples to findings: limits, coverage and the verdict."""

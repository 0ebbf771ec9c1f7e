"""Applying roles with ansible-core, run by ansible-runner."""

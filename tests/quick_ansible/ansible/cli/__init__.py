"""Holds what ``ansible-playbook`` imports."""

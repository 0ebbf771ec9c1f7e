"""Fakes, and what runs the cases of checks and rules: for our tests and a site's."""

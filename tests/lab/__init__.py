"""Simulated hosts for tests: network namespaces with addresses and an sshd of their own."""

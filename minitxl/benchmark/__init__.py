"""Races against other libraries, each system in a process of its own."""

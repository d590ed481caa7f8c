"""Races against other libraries, each system in a process of its own.

bench    systems of the same shapes at the same work, timed side by side
systems  the systems that need this package and torch alone
peers    the program of each process, with the systems of other libraries: runs one system on demand
workers  starts these processes and talks to them
limits   the most that the machine can do, measured in the same run
"""

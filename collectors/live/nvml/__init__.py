"""NVIDIA devices as their driver sees them: memory, who holds it, Xid and ECC events.

The driver's calls take a lock that the worker needs as well, so they are few, timed, and made by one poller per node:
memory once a second, process lists every ten, both less often where they take long.
"""

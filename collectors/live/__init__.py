"""Collectors that run beside a worker which nothing prepared: one module or package per source.

Each takes its address or root path, its clock and its driver API as arguments. A read that fails gives NULL and a
`collector` row that says why, never 0.
"""

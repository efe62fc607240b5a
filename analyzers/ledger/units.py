"""GB and GiB: 1e9 and 2^30, never taken for each other. Bytes are kept, units are shown."""

GB = 10**9
GIB = 2**30


def parameter_bytes(parameters: float, bits: int) -> int:
    """Bytes of bare parameters.

    >>> eight = parameter_bytes(8e9, 16)
    >>> f"{eight / GB:.1f} GB, {eight / GIB:.2f} GiB"
    '16.0 GB, 14.90 GiB'
    """
    return int(parameters * bits / 8)

"""An engine's /metrics page: fetched within bounds, parsed by prometheus-client, mapped to the event table.

One file per engine in `engines/` says which series is which field. What no file maps is kept as `metric` rows. Nothing is
summed: two engines behind one page stay two, and so do the ranks of one engine.
"""

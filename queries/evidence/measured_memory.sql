-- What does each rank's newest start hold of each component, as measured last?
-- column stream: source of the row
-- column seq: its place in the stream
-- column line: line of the source, where it is a text
-- column rank: global rank; NULL where none is printed
-- column component: of the memory
-- column owner: what was measured of it
-- column bytes: as printed
-- column resolution_bytes: how far the printed figure may be off
SELECT stream, seq, line, rank, component, owner, bytes, resolution_bytes
FROM memory
-- The engine's own estimate of its graphs, and the peak while loading, are other figures than what is held.
WHERE bytes IS NOT NULL AND coalesce(owner, '') NOT IN ('estimate', 'load_peak')
QUALIFY row_number() OVER (PARTITION BY worker, rank, component ORDER BY stream DESC, seq DESC) = 1
ORDER BY stream, seq

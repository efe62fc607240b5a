-- Engine, model and arguments as found before an instant: the first value of each key (engines repeat them), all of section engine
-- params: stream, worker, incarnation, seq
-- column stream: source of the row
-- column seq: its place in the stream
-- column line: line of the source that gave it, 1-based; NULL where the source has no lines
-- column section: engine, model, parallelism, argument, ...
-- column key: as the engine spells it
-- column value: as printed
SELECT stream, seq, line, section, key, value
FROM manifest
WHERE stream = $stream AND worker = $worker AND incarnation = $incarnation AND seq < $seq
QUALIFY row_number() OVER (PARTITION BY section, key ORDER BY seq) = 1 OR section = 'engine'
ORDER BY seq;

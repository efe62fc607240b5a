-- Engine, model and arguments as found before an instant, the last value of each key
-- params: stream, worker, incarnation, seq
-- column key: as the engine spells it
SELECT stream, seq, line, section, key, value
FROM manifest
WHERE stream = $stream AND worker = $worker AND incarnation = $incarnation AND seq < $seq
QUALIFY row_number() OVER (PARTITION BY section, key ORDER BY seq) = 1 OR section = 'engine'
ORDER BY seq;

-- Who held how much of the host's memory, as reports near a failure list it: the largest first, each process once
-- params: stream
-- column stream: source of the row
-- column seq: its place in the stream
-- column line: line of the source that gave it, 1-based; NULL where the source has no lines
-- column pid: process id, as the host counts
-- column name: as reported
-- column rss_bytes: what it held: its resident set
SELECT stream, seq, line, pid, name, rss_bytes
FROM process
WHERE stream = $stream AND rss_bytes IS NOT NULL
QUALIFY row_number() OVER (PARTITION BY pid, name ORDER BY rss_bytes DESC, seq) = 1
ORDER BY rss_bytes DESC, seq
LIMIT 64;

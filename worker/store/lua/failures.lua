-- What the breakers of a partition's repositories count, by a tenant with a repository (a series, see sums.lua):
--
-- planner:{p}:breaker:failed:<series>  zset  a failure (JSON array) -> when it was counted, ms
-- planner:{p}:breaker:due              zset  <series> -> when it is to be looked at, ms
-- planner:{p}:breaker:probes           hash  <series> -> "<ms> <JSON array>": what became of the step let through
-- planner:{p}:breaker                  hash  <series> -> JSON: a breaker that has tripped
local MOST_FAILURES = 512           -- of a series
local FAILURES_KEPT = 3600000       -- ms; longer than any window of a breaker

local function breaker_prefix(events) return (string.gsub(events, 'events$', 'breaker')) end

local function count_failure(events, now, series, failure)
  local prefix = breaker_prefix(events)
  local key = prefix .. ':failed:' .. series
  redis.call('ZADD', key, now, failure)
  redis.call('ZREMRANGEBYSCORE', key, '-inf', now - FAILURES_KEPT)
  redis.call('ZREMRANGEBYRANK', key, 0, -MOST_FAILURES - 1)
  redis.call('PEXPIRE', key, FAILURES_KEPT)
  redis.call('ZADD', prefix .. ':due', string.format('%.0f', now_ms()), series)
end

local function note_probe(events, now, series, news)
  local prefix = breaker_prefix(events)
  redis.call('HSET', prefix .. ':probes', series, now .. ' ' .. news)
  redis.call('ZADD', prefix .. ':due', string.format('%.0f', now_ms()), series)
end

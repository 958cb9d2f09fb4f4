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

-- KEYS 1 scopes, 2 events | ARGV 1 series, 2 the breaker as it was read ('' for none), 3 what becomes of it ('' for
--      none), 4 the name of its pause, 5 that pause ('' lifts it, '-' leaves it), 6 when it is looked at again, ms
--      (`was <ms>` for never, unless something has come meanwhile), 7 1 to forget what was counted, else 0, 8 now, 9 plan of which callbacks tell ('' for none),
--      10 cap of the events, then type, data of each event
-- Changes a breaker and its pause together. Returns 1, or 0 where another worker has changed it meanwhile
local function change_breaker(keys, args)
  local prefix, series = breaker_prefix(keys[2]), args[1]
  if (redis.call('HGET', prefix, series) or '') ~= args[2] then return 0 end
  if args[3] ~= '' then
    redis.call('HSET', prefix, series, args[3])
  else
    redis.call('HDEL', prefix, series)
    redis.call('HDEL', prefix .. ':probes', series) -- one that ended after a person had lifted the pause
  end
  if args[5] ~= '-' then
    if args[5] ~= '' then redis.call('HSET', keys[1], args[4], args[5]) else redis.call('HDEL', keys[1], args[4]) end
    redis.call('HINCRBY', keys[1], 'commands', 1)
  end
  local was = string.match(args[6], '^was (%S*)$')
  if not was then
    redis.call('ZADD', prefix .. ':due', args[6], series)
  elseif redis.call('ZSCORE', prefix .. ':due', series) == was then
    redis.call('ZREM', prefix .. ':due', series)
  end
  if args[7] == '1' then
    redis.call('DEL', prefix .. ':failed:' .. series)
    redis.call('HDEL', prefix .. ':probes', series)
  end
  for i = 11, #args, 2 do
    redis.call('XADD', keys[2], 'MAXLEN', '~', args[10], '*', 'type', args[i], 'data', args[i + 1])
    local what = TOLD_OUTSIDE[args[i]]
    if what and args[9] ~= '' then
      put_into_outbox(keys[2], string.gsub(keys[2], 'events$', 'plan:') .. args[9], args[9], args[8], what)
    end
  end
  return 1
end

redis.register_function{function_name = 'planner_change_breaker', callback = change_breaker, flags = {'allow-oom'}}

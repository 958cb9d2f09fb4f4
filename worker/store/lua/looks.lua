-- Looks at many streams, or at the clocks of many partitions, in one call: what an idle worker costs does not grow with
-- its partitions.

local function group_of(stream, name)
  local found = redis.pcall('XINFO', 'GROUPS', stream)
  if found.err then return nil end -- no such stream
  for _, row in ipairs(found) do
    local one = {}
    for i = 1, #row, 2 do
      one[row[i]] = row[i + 1]
    end
    if one.name == name then return one end
  end
  return nil
end

local function first_of(clocks)
  local first = redis.call('ZRANGE', clocks, 0, 0, 'WITHSCORES')
  return first[2] and tonumber(first[2])
end

-- KEYS streams | ARGV 1 group
-- Returns for each up to where the group has read it, with `+` behind where it has more; '' where there is no group
local function unread(keys, args)
  local found = {}
  for i, stream in ipairs(keys) do
    local group = group_of(stream, args[1])
    local last = group and group['last-delivered-id'] or ''
    local more = group and redis.call('XLEN', stream) > 0 and redis.call('XRANGE', stream, '(' .. last, '+', 'COUNT', 1)
    found[i] = more and #more > 0 and last .. '+' or last
  end
  return found
end

-- KEYS streams | ARGV 1 group
-- Returns {number of the stream, entries, up to where the group has read, pending entries, the oldest of them, whose it
-- is}, of each stream that has entries and the group
local function waiting(keys, args)
  local found = {}
  for i, stream in ipairs(keys) do
    local length = redis.pcall('XLEN', stream)
    local group = type(length) == 'number' and length > 0 and group_of(stream, args[1])
    if group then
      local oldest = redis.call('XPENDING', stream, args[1], '-', '+', 1)[1] or {'', ''}
      found[#found + 1] = {i, length, group['last-delivered-id'], group.pending, oldest[1], oldest[2]}
    end
  end
  return found
end

-- KEYS sorted sets of clocks
-- Returns {first time in any of them, '' where they have none, number of each of which a clock has run out, ...}
local function due(keys)
  local now, first, found = now_ms(), nil, {''}
  for i, clocks in ipairs(keys) do
    local read, at = pcall(first_of, clocks)
    if not read then at = nil end -- a key of another type stops no other clock
    if at and (not first or at < first) then first = at end
    if at and at <= now then found[#found + 1] = i end
  end
  if first then found[1] = string.format('%.0f', first) end
  return found
end

local OF_A_PARTITION = 7

local function is_left(stream, group, idle)
  local found = redis.pcall('XPENDING', stream, group, 'IDLE', idle, '-', '+', 1)
  return not found.err and #found > 0
end

-- Whether a partition has to be swept; if not, notes that it was.
local function look_at(k, args, now)
  local h = redis.call('HMGET', k[2], 'last', 'seen')
  local last, newest = tonumber(h[1] or 0), redis.call('XREVRANGE', k[7], '+', '-', 'COUNT', 1)[1]
  local seen = newest and newest[1] or '-'
  local timer, breaker = first_of(k[1]), first_of(k[6])
  if now < last or now - last > GAP or h[2] ~= seen or timer and timer <= now or breaker and breaker <= now
    or redis.call('XLEN', k[5]) > 0 or is_left(k[3], args[1], args[2]) or is_left(k[4], args[1], args[2]) then
    redis.call('HSET', k[2], 'seen', seen)
    return true
  end
  redis.call('HSET', k[2], 'last', now)
  return false
end

-- KEYS of each partition: timers, sweep, outcomes, commands, attachments, clocks of breakers, events
-- ARGV 1 group, 2 for how long an entry is idle, in ms, of which nobody works any more
-- Sweeps the partitions in which nothing has happened since they were swept; returns the numbers of the others, and of
-- those with a key of another type: their sweep reports the error
local function look_over(keys, args)
  local now, found = now_ms(), {}
  for i = 1, #keys / OF_A_PARTITION do
    local read, is_due = pcall(look_at, {unpack(keys, OF_A_PARTITION * (i - 1) + 1, OF_A_PARTITION * i)}, args, now)
    if is_due or not read then found[#found + 1] = i end
  end
  return found
end

redis.register_function{function_name = 'planner_unread', callback = unread, flags = {'no-writes'}}
redis.register_function{function_name = 'planner_waiting', callback = waiting, flags = {'no-writes'}}
redis.register_function{function_name = 'planner_due', callback = due, flags = {'no-writes'}}
redis.register_function{function_name = 'planner_look_over', callback = look_over, flags = {'allow-oom'}}

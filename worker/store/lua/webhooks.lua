-- What becomes of a webhook's delivery, in one act: nothing twice, nothing that is older than what is known.

local MOST_WITHDRAWN_MS = 30 * 86400000 -- for which a goal that was overtaken is remembered

-- Writes a whole number without leading zeros, a text of digits as a number too; leaves every other order as it is
local function plain(order)
  local digits = string.match(order, '^[ns]0*(%d+)$')
  return digits and 'n' .. digits or order, digits
end

-- Two orders as `n<number>` or `s<text>`; a text of digits is a number. Returns -1, 0 or 1, nil for different types
local function compare(a, b)
  local whole_a, whole_b
  a, whole_a = plain(a)
  b, whole_b = plain(b)
  if string.sub(a, 1, 1) ~= string.sub(b, 1, 1) then return nil end
  if whole_a and whole_b and #whole_a ~= #whole_b then return #whole_a < #whole_b and -1 or 1 end
  if whole_a and whole_b then return whole_a < whole_b and -1 or whole_a > whole_b and 1 or 0 end
  if string.sub(a, 1, 1) == 'n' and string.sub(b, 1, 1) == 'n' then
    local x, y = tonumber(string.sub(a, 2)), tonumber(string.sub(b, 2))
    if x and y then return x < y and -1 or x > y and 1 or 0 end
  end
  return a < b and -1 or a > b and 1 or 0
end

local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Raises the order of the latest of its kind where that is the goal which something newer coalesced with, so that no
-- older success cancels that goal. Of another goal the order stays: this one may yet have to take its place
local function note_coalesced(latest, goal, order)
  local h = redis.call('HMGET', latest, 'order', 'goal')
  if h[2] ~= goal or order == '' then return end
  if not h[1] or h[1] == '' or (compare(order, h[1]) or 0) > 0 then redis.call('HSET', latest, 'order', order) end
end

-- KEYS 1 counters, 2 goals, 3 jobs, 4 this delivery, 5 this body, 6 what it coalesces with, 7 the latest of its kind,
-- 8 goals that were overtaken
-- ARGV 1 source, 2 the goal's id ('' where it only ends an older one), 3 its tenant, 4 the goal ('' for none),
-- 5 the job that completes it ('' where it is complete), 6 seconds for which a delivery is known, 7 seconds for which
-- the latest is known, 8 and 9 whether there are the keys 6 and 7 (0|1), 10 its order ('' for none)
-- Returns {verdict, goal, goal that is to be cancelled}; refused by a server whose memory is full
local function take(keys, args)
  local source, goal = args[1], args[2]
  local function say(verdict, which, older)
    redis.call('HINCRBY', keys[1], source .. ':' .. verdict, 1)
    return {verdict, which or '', older or ''}
  end
  local known = redis.call('GET', keys[4]) or redis.call('GET', keys[5])
  if known then return say('duplicate', known) end
  if args[8] == '1' and goal ~= '' then
    known = redis.call('GET', keys[6])
    if known then
      if args[9] == '1' then note_coalesced(keys[7], known, args[10]) end
      return say('coalesced', known)
    end
  end
  local older = ''
  if args[9] == '1' then
    local h = redis.call('HMGET', keys[7], 'order', 'goal', 'tenant', 'coalesce')
    if h[1] and h[1] ~= '' and args[10] ~= '' then
      local side = compare(args[10], h[1])
      if not side then return say('order', h[2] or '') end
      if side < 0 or (side == 0 and goal ~= '') then return say('not_newer', h[2] or '') end
    end
    local coalesce = args[8] == '1' and goal ~= '' and keys[6] or ''
    redis.call('HSET', keys[7], 'order', args[10], 'goal', goal, 'tenant', args[3], 'coalesce', coalesce)
    redis.call('EXPIRE', keys[7], args[7])
    if h[2] and h[2] ~= '' then
      older = h[2]
      -- nothing coalesces any more with a goal that is cancelled
      if h[4] and h[4] ~= '' and redis.call('GET', h[4]) == older then redis.call('DEL', h[4]) end
      local now = now_ms()
      redis.call('ZREMRANGEBYSCORE', keys[8], '-inf', now - MOST_WITHDRAWN_MS)
      redis.call('ZADD', keys[8], now, older)
      redis.call('XADD', keys[3], '*', 'data', cjson.encode({cancels = older, tenant = h[3], source = source, by = goal}))
    end
  end
  redis.call('SET', keys[4], goal, 'EX', args[6])
  redis.call('SET', keys[5], goal, 'EX', args[6])
  if args[8] == '1' and goal ~= '' then redis.call('SET', keys[6], goal, 'EX', args[6]) end
  if args[5] ~= '' then
    redis.call('XADD', keys[3], '*', 'data', args[5])
  elseif args[4] ~= '' then
    redis.call('XADD', keys[2], '*', 'data', args[4])
  end
  return say(goal ~= '' and 'goal' or 'resolved', goal, older)
end

-- Takes an entry from its stream. Returns false where it is gone: whoever took it over has done with it
local function done_with(stream, group, entry)
  if #redis.call('XRANGE', stream, entry, entry) == 0 then return false end
  redis.call('XDEL', stream, entry)
  redis.call('XACK', stream, group, entry)
  return true
end

-- KEYS 1 jobs, 2 goals, 3 goals that were overtaken | ARGV 1 group, 2 entry of the job, 3 the goal's id, 4 the goal
-- Returns 1 if it is sent, 0 where it was overtaken meanwhile, -1 where another worker has done the job.
-- Refused by a server whose memory is full
local function send(keys, args)
  if not done_with(keys[1], args[1], args[2]) then return -1 end
  if redis.call('ZREM', keys[3], args[3]) == 1 then return 0 end
  redis.call('XADD', keys[2], '*', 'data', args[4])
  return 1
end

-- KEYS 1 jobs, 2 jobs that wait | ARGV 1 group, 2 entry of the job, 3 the job, 4 ms until it is tried again
local function postpone(keys, args)
  if not done_with(keys[1], args[1], args[2]) then return 0 end
  return redis.call('ZADD', keys[2], now_ms() + args[4], args[3])
end

-- KEYS 1 jobs, 2 jobs that wait | ARGV 1 how many at most. Puts those back whose time has come. Returns how many
local function wake(keys, args)
  local due = redis.call('ZRANGEBYSCORE', keys[2], '-inf', now_ms(), 'LIMIT', 0, args[1])
  for _, job in ipairs(due) do
    redis.call('XADD', keys[1], '*', 'data', job)
    redis.call('ZREM', keys[2], job)
  end
  return #due
end

redis.register_function('planner_take_webhook', take)
redis.register_function('planner_send_webhook', send)
redis.register_function{function_name = 'planner_postpone_webhook', callback = postpone, flags = {'allow-oom'}}
redis.register_function{function_name = 'planner_wake_webhooks', callback = wake, flags = {'allow-oom'}}

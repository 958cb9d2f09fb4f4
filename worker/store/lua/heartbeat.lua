-- The one act of controllers on the plan's side; a library of its own, since its name is part of the wire.

local SILENT = 60000 -- ms, where the lease does not say; tasks/policy/schedule.py has the same and these bounds
local SHORTEST, LONGEST = 60, 900 -- s that a controller may ask for
local MAX_INFO = 512 -- bytes that a controller may say of itself
local MAX_NAME = 200 -- bytes of a controller's name that are kept: this call is taken by a full server too

-- The time in ms of which a controller said how many seconds that is; nil where it did not, or it is no number.
local function ttl_of(value)
  local seconds = value and #value <= 15 and string.match(value, '^(%d+)%.?%d*$')
  return seconds and 1000 * math.max(SHORTEST, math.min(LONGEST, tonumber(seconds)))
end

-- KEYS 1 lease | ARGV 1 attempt, 2 lease, 3 controller, and then, where it says so, 4 ttl: for how many seconds a claim
-- lasts without a renewal, heard at the claim only, 5 info: what it says of itself, a JSON object that people are shown
-- as it came; 6 of gateways: the token of the claim that is answered; 7 the calls of tools of the attempt so far
-- Returns {action, tokens left, ms until the lease is lost without a renewal}
--   continue, cancel, pause   the attempt is yours; the first call claims it, but not while its plan is paused;
--                             `cancel` also at the limit of the attempt's tool calls, which is kept with its lease
--   taken                     another controller holds it
--   stale                     the attempt is over, or never was
local function heartbeat(keys, args)
  local key, controller = keys[1], string.sub(args[3], 1, MAX_NAME)
  local h = redis.call('HMGET', key, 'attempt', 'lease', 'controller', 'action', 'tokens', 'ttl', 'calls')
  if not h[1] or h[1] ~= args[1] or h[2] ~= args[2] then return {'stale', 0, 0} end
  if h[3] and h[3] ~= controller then return {'taken', 0, 0} end
  local t = redis.call('TIME')
  local now = string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000))
  if h[3] then
    redis.call('HSET', key, 'renewed', now)
  elseif h[4] ~= 'pause' then
    redis.call('HSET', key, 'controller', controller, 'claimed', now, 'renewed', now)
    local ttl = ttl_of(args[4])
    if ttl then
      redis.call('HSET', key, 'ttl', ttl)
      h[6] = ttl
    end
  end
  if h[3] or h[4] ~= 'pause' then
    if args[5] and args[5] ~= '' and #args[5] <= MAX_INFO then redis.call('HSET', key, 'info', args[5]) end
    if args[6] and args[6] ~= '' then redis.call('HSET', key, 'claim', args[6]) end
  end
  local calls = h[7] and args[7] and #args[7] <= 15 and string.match(args[7], '^%d+$')
  if calls and tonumber(calls) >= tonumber(h[7]) then h[4] = 'cancel' end
  return {h[4] or 'continue', tonumber(h[5] or 0), tonumber(h[6] or SILENT)}
end

redis.register_function{function_name = 'planner_heartbeat', callback = heartbeat, flags = {'allow-oom'}}

local GAP = 15000 -- ms between two sweeps after which nobody can say who was silent meanwhile

-- Brings every timer forward by what the clock was set back. One that comes too early is set again.
local function set_back(timers, ms)
  local all = redis.call('ZRANGE', timers, 0, -1, 'WITHSCORES')
  for i = 1, #all, 2 do redis.call('ZADD', timers, 'XX', string.format('%.0f', all[i + 1] - ms), all[i]) end
end

-- KEYS 1 timers, 2 sweep, 3 outcomes | ARGV 1 token, 2 lock ttl in ms, 3 limit
-- Returns {now, {member due, ...}, grace, down, oldest} as tasks/plan/snapshot.py's Clocks, or {now} while another one sweeps
local function upkeep(keys, args)
  local now = now_ms()
  local h = redis.call('HMGET', keys[2], 'token', 'until', 'last', 'grace', 'down')
  local left = tonumber(h[2] or 0) - now
  if h[1] and h[1] ~= args[1] and left > 0 and left <= tonumber(args[2]) then return {now} end
  local last, grace, down = tonumber(h[3] or now), tonumber(h[4] or 0), tonumber(h[5] or 0)
  if now < last then
    set_back(keys[1], last - now)
    grace = now -- as after a gap: nobody can say who was silent
  end
  if now - last > GAP then
    grace, down = now, down + now - last
  end
  local oldest = redis.pcall('XRANGE', keys[3], '-', '+', 'COUNT', 1)
  oldest = oldest[1] and tonumber(string.match(oldest[1][1], '^%d+')) or 0
  local due = redis.call('ZRANGE', keys[1], '-inf', string.format('%.0f', now), 'BYSCORE', 'LIMIT', 0, args[3])
  local more = #due > 0 and now + args[2] or now -- whoever finds nothing lets others look at once
  redis.call('HSET', keys[2], 'token', args[1], 'until', more, 'last', now, 'grace', grace, 'down', down)
  return {now, due, grace, down, oldest}
end

redis.register_function{function_name = 'planner_upkeep', callback = upkeep, flags = {'allow-oom'}}

-- What is known of changes after their delivery; all of it lies beside the records of goals.

-- KEYS 1 the change, 2 the plan whose branch it is, 3 jobs, 4 jobs that wait | ARGV 1 plan, 2 the change, 3 seconds to
-- keep it, 4 and 5 the jobs that look at the change of PLAN again and again, and once. Returns 1 where it is new
-- A plan that delivers to the branch of another one has no change of its own: that one is looked at
local function follow(keys, args)
  local owner = redis.call('GET', keys[2])
  if owner and owner ~= args[1] then
    redis.call('ZADD', keys[4], now_ms(), (string.gsub(args[5], 'PLAN', owner)))
    return 0
  end
  redis.call('SET', keys[2], args[1], 'EX', args[3])
  if redis.call('EXISTS', keys[1]) == 1 then return 0 end
  redis.call('HSET', keys[1], 'version', 0, 'change', args[2])
  redis.call('EXPIRE', keys[1], args[3])
  redis.call('XADD', keys[3], '*', 'data', (string.gsub(args[4], 'PLAN', args[1])))
  return 1
end

-- KEYS 1 the change, 2 the record of its goal, 3.. what leads to its plan | ARGV 1 version that was read, 2 the change,
-- 3 seconds to keep it, 4 plan, 5 its state, 6 since when. Returns 0 where somebody has written meanwhile
local function keep(keys, args)
  if redis.call('HGET', keys[1], 'version') ~= args[1] then return 0 end
  redis.call('HSET', keys[1], 'version', args[1] + 1, 'change', args[2])
  redis.call('EXPIRE', keys[1], args[3])
  if redis.call('HGET', keys[2], 'plan_id') == args[4] then
    redis.call('HSET', keys[2], 'delivery_state', args[5], 'delivery_at', args[6])
  end
  for place = 3, #keys do redis.call('SET', keys[place], args[4], 'EX', args[3]) end
  return 1
end

redis.register_function('planner_follow_change', follow)
redis.register_function{function_name = 'planner_keep_change', callback = keep, flags = {'allow-oom'}}

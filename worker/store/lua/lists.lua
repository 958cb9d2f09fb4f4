-- Lists of plans by what people ask for: zsets as planner:{p}:plans, whose names begin with that key's, so that they lie
-- in its slot. Which lists a plan leaves is known here alone, so their keys are no arguments.

-- Puts a plan that exists into the lists `names`, and takes it out of all others.
local function put_into_lists(plans, plan, names)
  local listed, stays = plans .. ':listed', {}
  local created = redis.call('ZSCORE', plans, plan)
  if not created then names = {} end
  for _, name in ipairs(names) do
    stays[name] = true
    redis.call('ZADD', plans .. ':' .. name, created, plan)
  end
  for name in string.gmatch(redis.call('HGET', listed, plan) or '', '%S+') do
    if not stays[name] then redis.call('ZREM', plans .. ':' .. name, plan) end
  end
  if #names > 0 then
    redis.call('HSET', listed, plan, table.concat(names, ' '))
  else
    redis.call('HDEL', listed, plan)
  end
end

-- Deleting a consumer forgets what is pending for it, so looking and deleting are one act.

-- KEYS 1 stream | ARGV 1 group, 2 least idle time in ms, 3 what the name begins with ('' any)
-- Deletes the group's consumers that have nothing pending; returns how many
local function tidy(keys, args)
  local found = redis.pcall('XINFO', 'CONSUMERS', keys[1], args[1])
  if found.err then -- no such stream or group
    return 0
  end
  local gone = 0
  for _, row in ipairs(found) do
    local one = {}
    for i = 1, #row, 2 do
      one[row[i]] = row[i + 1]
    end
    if one.pending == 0 and one.idle >= tonumber(args[2]) and one.name:sub(1, #args[3]) == args[3] then
      redis.call('XGROUP', 'DELCONSUMER', keys[1], args[1], one.name)
      gone = gone + 1
    end
  end
  return gone
end

redis.register_function{function_name = 'planner_tidy', callback = tidy, flags = {'allow-oom'}}

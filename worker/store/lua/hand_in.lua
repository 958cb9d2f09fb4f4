-- Goals that gateways hand in.

-- KEYS 1 the goal's record, 2 stream of goals | ARGV 1 plan, 2 digest of the body, 3 seconds until the record is
-- forgotten, 4.. fields and values of the entry
-- Makes the record unless there is one, which is then kept for that long at least, and adds the goal to the stream. The
-- planner ignores a goal that it has. Returns the entry, '' where the record is of another body: nothing is added then.
-- Refused by a server whose memory is full
local function hand_in(keys, args)
  local known = claim_goal(keys, args)
  redis.call('EXPIRE', keys[1], args[3], 'GT')
  if known[3] ~= args[2] then return '' end
  return redis.call('XADD', keys[2], '*', unpack(args, 4))
end

redis.register_function('planner_hand_in', hand_in)

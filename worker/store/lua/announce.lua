-- KEYS 1 events | ARGV 1 cap of the events, 2 type, 3 data, 4 what callbacks call it ('': they are not told), 5 plan,
-- 6 when, 7 state of the plan, 8 its head, 9 endpoint that its goal names
-- Tells of what happened to a plan's change after its end: the plan itself may be gone
local function announce(keys, args)
  redis.call('XADD', keys[1], 'MAXLEN', '~', args[1], '*', 'type', args[2], 'data', args[3])
  local outbox = string.gsub(keys[1], 'events$', 'outbox')
  if args[4] == '' or redis.call('EXISTS', outbox .. ':open') == 0 then return 0 end
  redis.call('XADD', outbox, 'MAXLEN', '~', OUTBOX_CAP, '*', 'type', args[4], 'plan', args[5], 'at', args[6],
    'state', args[7], 'head', args[8], 'callback', args[9])
  return 1
end

redis.register_function('planner_announce', announce)

-- The planner's atomic acts on a partition. Every key of a call lies in one cluster slot ({p}).
-- A function whose arguments change gets a new name and stays beside the old one, so that workers of two versions can run
-- side by side.
--
-- planner:{p}:plan:<id>          hash    state, version (the fence), lock ("<worker> <until ms>"), head, limits,
--                                        budgets, counters, times
-- planner:{p}:plan:<id>:steps    hash    <step> -> static spec, with the first window of its dependents; ><step>:<n> ->
--                                        the n-th after it, spaced
-- planner:{p}:plan:<id>:status   hash    <step> -> JSON array, unmet dependencies first
-- planner:{p}:plan:<id>:ready    zset    steps that may start, by their index
-- planner:{p}:plan:<id>:active   hash    <step> -> "<spec entry> <JSON array>": attempts in flight
-- planner:{p}:plan:<id>:todo     list    "<step> <window>": ends of steps that dependents have not heard of yet
-- planner:{p}:plan:<id>:log      list    one JSON line a commit
-- planner:{p}:timers             zset    <plan> -> when to look at it without being asked, ms
-- planner:{p}:plans              zset    <plan> -> created time in ms
-- planner:{p}:plans:<list>       zset    the same for some: state:<state>, tenant:<tenant>, repo:<repository>, rule:<halt
--                                        rule>, waiting
-- planner:{p}:plans:listed       hash    <plan> -> the lists that it is in, spaced
-- planner:{p}:lease:<plan>:<step> hash   attempt, lease, tokens, action, calls; controller, claimed, renewed, ttl, info
-- planner:{p}:scopes             hash    "<command> <scope>" -> the command that holds; commands: how many there were
-- planner:{p}:grants             hash    <scope> -> "<day> <tokens left> <1 if the day has no more>"
-- planner:{p}:used:<mode>:<queue> list   the tokens of the last attempts, newest first; estimates are learned from 50
-- planner:{p}:worked:<day>       hash    "<2 done, 3 failed> <controller>" -> how many of its attempts ended so on that day;
--                                      "info <controller>" -> what it said of itself
-- planner:{p}:tenants            hash    <tenant> -> how many of its plans have not ended
-- planner:{p}:commits            hash    n:<epoch> -> how many commits there were; see worker/store/commits.py
-- planner:{p}:outbox             stream  type, plan, at, state, head, callback: what callbacks are to tell; see callbacks.lua
-- planner:{p}:outbox:open        string  there where there is an endpoint; nothing is put into the outbox without
-- planner:{p}:owner             string  the worker that drains the partition, for as long as its lease lasts; see owners.lua
-- planner:{p}:sweep              hash    token, until; last, grace, down: when it was swept, and gaps between

local DAY = 86400000    -- ms

-- What a grant has left today, and whether the day has no more for it.
local function grant_of(value, today)
  local day, left, over = string.match(value or '', '^(%d+) (-?%d+) (%d)')
  if tonumber(day) ~= today then return 0, '0' end
  return tonumber(left), over
end

-- A time or a number out of a lease, which controllers write: whatever stands there.
local function number_of(value)
  if type(value) ~= 'string' or #value > 15 or not string.match(value, '^%d+$') then return 0 end
  return tonumber(value)
end

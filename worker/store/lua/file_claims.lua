-- Which plans claim which files of a repository, and who waits for whom: see tasks/plan/file_claims.py. The keys are no
-- arguments where few plans need them; they lie beside the timers:
-- planner:{p}:claims              hash    <plan> -> the name of its repository's claims and its files, a line each
-- planner:{p}:claims:<repository> hash    <file> -> the plans that claim it in their order, spaced, '?' before one that
--                                         waits; '' -> how often it changed who waits for whom
local WAITS = '?'
local FILES_AT_ONCE = 2000 -- arguments of one command
local ENDS = {COMPLETED = true, HALTED = true, REJECTED = true}

local function claims_beside(timers)
  return string.sub(timers, 1, -7) .. 'claims' -- without 'timers'
end

-- The key of the repository, and the files, that a plan claims; nothing where it claims none.
local function files_of(claims, id)
  local known = redis.call('HGET', claims, id)
  if not known then return nil, {} end
  local key, files
  for line in string.gmatch(known, '[^\n]+') do
    if key then files[#files + 1] = line else key, files = claims .. ':' .. line, {} end
  end
  return key, files
end

-- The claims on a file without those of a plan, and the plan that waited for it first, if one did.
local function without(value, id)
  local left, follows, woken = {}, false, nil
  for word in string.gmatch(value, '%S+') do
    local waits = string.sub(word, 1, 1) == WAITS
    local plan = waits and string.sub(word, 2) or word
    if plan == id then
      follows = true
    else
      if follows and waits then woken = plan end
      follows = false
      left[#left + 1] = word
    end
  end
  return table.concat(left, ' '), woken
end

-- Gives back what a plan claims, and has the plans looked at that waited directly behind it.
local function release_files(timers, id, now)
  local claims = claims_beside(timers)
  local key, files = files_of(claims, id)
  if not key then return 0 end
  redis.call('HDEL', claims, id)
  local woken = false
  for from = 1, #files, FILES_AT_ONCE do
    local upto, free, held = math.min(from + FILES_AT_ONCE - 1, #files), {}, {}
    local values = redis.call('HMGET', key, unpack(files, from, upto))
    for i = from, upto do
      local value = values[i - from + 1]
      local left, next_plan = without(value or '', id)
      if left == '' then
        free[#free + 1] = files[i]
      else
        held[#held + 1], held[#held + 2] = files[i], left
      end
      if next_plan then
        woken = true
        redis.call('ZADD', timers, now, next_plan)
      end
    end
    if #free > 0 then redis.call('HDEL', key, unpack(free)) end
    if #held > 0 then redis.call('HSET', key, unpack(held)) end
  end
  if redis.call('HLEN', key) == redis.call('HEXISTS', key, '') then
    redis.call('DEL', key)
  elseif woken then
    redis.call('HINCRBY', key, '', 1)
  end
  return #files
end

-- Writes the claims of a plan: at from..upto of args are rows of key, file, its claims when that was decided, its claims
-- from now on.
local function claim_files(timers, id, now, args, from, upto)
  if from > upto then return end
  local claims = claims_beside(timers)
  local _, files = files_of(claims, id)
  local known = {}
  for _, file in ipairs(files) do known[file] = true end
  for i = from, upto, 4 do
    local file = args[i + 1]
    redis.call('HSET', args[i], file, args[i + 3])
    if file ~= '' and not known[file] then
      known[file] = true
      files[#files + 1] = file
      local _, behind = without(args[i + 3], id)
      if behind then redis.call('ZADD', timers, now, behind) end -- it is told that it waits for another plan now
    end
  end
  local name = string.sub(args[from], #claims + 2)
  redis.call('HSET', claims, id, name .. '\n' .. table.concat(files, '\n'))
end

-- KEYS 1 timers, 2 the repository's claims | ARGV 1 plan id ('' for one that is yet to be), 2 1 to read on from each plan
-- that claims a file to all that this plan claims, else 0, 3.. files
-- Gives back what plans have left that are not there any more. Returns {{file, claims, ...}, {plan, its files, ...}}: the
-- claims on the files named and on those of the plan, and where that is asked for on those of the plans that were met
local function read_claims(keys, args)
  local timers, key = keys[1], keys[2]
  local claims, prefix = claims_beside(timers), string.sub(timers, 1, -7)
  local files, plans, seen, alive = {}, {}, {}, {}
  local queue = {}
  for i = 3, #args do queue[i - 2] = args[i] end
  local function add_plan(id)
    local _, theirs = files_of(claims, id)
    plans[#plans + 1], plans[#plans + 2] = id, theirs
    for _, file in ipairs(theirs) do queue[#queue + 1] = file end
  end
  local function lives(id)
    if alive[id] == nil then
      local state = redis.call('HGET', prefix .. 'plan:' .. id, 'state')
      alive[id] = state ~= false and not ENDS[state]
      if not alive[id] then release_files(timers, id, now_ms()) end
    end
    return alive[id]
  end
  local looked = {[args[1]] = true}
  if args[1] ~= '' then add_plan(args[1]) end
  local at = 1
  while at <= #queue do
    local file = queue[at]
    at = at + 1
    if not seen[file] then
      seen[file] = true
      local value = redis.call('HGET', key, file) or ''
      local gone = false
      for word in string.gmatch(value, '[^%s?]+') do
        if word ~= args[1] and not lives(word) then gone = true end
      end
      if gone then value = redis.call('HGET', key, file) or '' end
      if value ~= '' then files[#files + 1], files[#files + 2] = file, value end
      if args[2] == '1' then
        for word in string.gmatch(value, '%S+') do
          local id = string.sub(word, 1, 1) == WAITS and string.sub(word, 2) or word
          if not looked[id] then
            looked[id] = true
            add_plan(id)
          end
        end
      end
    end
  end
  local count = args[2] == '1' and redis.call('HGET', key, '')
  if count then files[#files + 1], files[#files + 2] = '', count end
  return {files, plans}
end

-- KEYS 1 timers | ARGV 1 plan id. Returns how many files a plan gives back that is not there any more
local function release(keys, args)
  return release_files(keys[1], args[1], now_ms())
end

redis.register_function{function_name = 'planner_read_claims_1', callback = read_claims, flags = {'allow-oom'}}
redis.register_function{function_name = 'planner_release_files_1', callback = release, flags = {'allow-oom'}}

-- Which plans claim which files of a repository, and who waits for whom: see tasks/plan/file_claims.py. The keys are no
-- arguments where few plans need them; they lie beside the timers:
-- planner:{p}:claims              hash    <plan> -> the name of its repository's claims, and its files, a line each, a tab
--                                         before one that it waits for
-- planner:{p}:claims:<repository> hash    <file> -> the claims on it (claims_text.lua); '' -> how often it changed who
--                                         waits for whom
-- planner:{p}:claims:kept         zset    <plan> that delivered and ended -> until when it keeps its claims, ms
local FILES_AT_ONCE = 2000 -- arguments of one command
local ENDS = {COMPLETED = true, HALTED = true, REJECTED = true}
local KEPT_MS = 14 * 86400000 -- for which a delivered change keeps its files, unless it is merged or closed before
local KEPT_AT_ONCE = 8
local MARK = '//' -- begins a claim that is no file: tasks/features/duplicates.py
local REVIEW = '//the review of an open change'
local JUST_MERGED = '//just merged: '
local WHOLE, FIRST = '=', '^'    -- where a claim goes: instead of all on the file; where it is, before all others

local function claims_beside(timers)
  return string.sub(timers, 1, -7) .. 'claims' -- without 'timers'
end

-- The key of the repository, and the files, that a plan claims, with what it waits for among them; nothing where it claims
-- none.
local function files_of(claims, id)
  local known = redis.call('HGET', claims, id)
  if not known then return nil, {}, {} end
  local key, files, waits
  for line in string.gmatch(known, '[^\n]+') do
    if not key then
      key, files, waits = claims .. ':' .. string.match(line, '^%S+'), {}, {}
    elseif string.sub(line, 1, 1) == '\t' then
      local file = string.sub(line, 2)
      files[#files + 1], waits[file] = file, true
    else
      files[#files + 1] = line
    end
  end
  return key, files, waits
end

-- The files that a plan waits for, in the order in which it claimed them.
local function waits_of(claims, id)
  local found = {}
  for file in string.gmatch(redis.call('HGET', claims, id) or '', '\n\t([^\n]+)') do found[#found + 1] = file end
  return found
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
      local left, next_plan = without(values[i - from + 1] or '', id)
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

-- Whether a plan that ended still keeps the files that it delivered.
local function keeps_files(claims, id, now)
  return (tonumber(redis.call('ZSCORE', claims .. ':kept', id) or 0)) > now
end

-- Gives back what a plan kept after its end, or has left.
local function release_kept(timers, id, now)
  redis.call('ZREM', claims_beside(timers) .. ':kept', id)
  return release_files(timers, id, now)
end

-- Gives back what a plan claims, but for the files that it changed and delivered, and what it is about: these it keeps
-- before all others. Also gives back what other plans kept for too long.
local function keep_files(timers, id, now, delivered)
  local claims = claims_beside(timers)
  local key, kept, files = claims .. ':' .. delivered[1].name, claims .. ':kept', {}
  local _, claimed = files_of(claims, id)
  for _, file in ipairs(claimed) do
    if string.sub(file, 1, 2) == MARK then files[#files + 1] = file end
  end
  for _, one in ipairs(delivered) do files[#files + 1] = one.file end
  release_files(timers, id, now)
  for _, lapsed in ipairs(redis.call('ZRANGEBYSCORE', kept, '-inf', now, 'LIMIT', 0, KEPT_AT_ONCE)) do
    release_kept(timers, lapsed, now)
  end
  for _, file in ipairs(files) do
    local others = redis.call('HGET', key, file) or ''
    redis.call('HSET', key, file, others == '' and id or id .. ' ' .. others)
  end
  redis.call('HSET', claims, id, delivered[1].name .. '\n' .. table.concat(files, '\n'))
  redis.call('ZADD', kept, now + KEPT_MS, id)
end

-- Whether others have claimed or given back a file since a decision that rests on who claims it. A claim is a file, what of
-- its claims the decision rests on, the plan's claim from now on, and where that goes: before that of the plan named, at the
-- end for ''; or WHOLE: both are all claims on the file; or FIRST. The claims that are there take the place of what was seen
-- of them: to read many once more costs as much as all the rest.
local function is_claimed(claims, id, changes)
  for _, one in ipairs(changes) do
    local value, where = redis.call('HGET', claims .. ':' .. one.name, one.file) or '', one.where
    if where == WHOLE then
      if value ~= one.seen then return true end
    elseif where == FIRST then
      if claim_of(value, id) ~= 1 then return true end
    elseif mark_of(value) ~= one.seen or (where ~= '' and not claim_of(value, where)) then
      return true
    end
    one.seen = value
  end
  return false
end

-- Writes the claims of a plan, as `is_claimed` left them.
local function claim_files(timers, claims, id, now, changes)
  local _, files, waits = files_of(claims, id)
  local known, written = {}, {}
  for _, file in ipairs(files) do known[file] = true end
  for _, one in ipairs(changes) do
    local file, value, ends = one.file, one.claim, nil
    if one.where ~= WHOLE then
      value, ends = put_claim(written[file] or one.seen, id, one.claim, one.where, known[file])
    end
    written[file] = value
    redis.call('HSET', claims .. ':' .. one.name, file, value)
    if ends then
      waits[file] = string.sub(one.claim, 1, 1) == WAITS
      if not known[file] then
        known[file] = true
        files[#files + 1] = file
        local behind = follower_of(value, ends)
        if behind then redis.call('ZADD', timers, now, behind) end -- it is told that it waits for another plan now
      end
    end
  end
  for n, file in ipairs(files) do
    if waits[file] then files[n] = '\t' .. file end
  end
  redis.call('HSET', claims, id, changes[1].name .. '\n' .. table.concat(files, '\n'))
end

-- KEYS 1 timers, 2 the repository's claims | ARGV 1 plan id ('' for one that is yet to be), 2 1 to read on from each plan
-- that claims a file to all that this plan waits for, else 0, 3.. files, folders that end in /, and folder/* for what is
-- claimed in one (./ is the folder of all)
-- Returns {{file, claims, mark, ...}, {plan, files, ...}}: the claims on the files named, and on those that the plan waits
-- for, shortened unless that is read on; and what each plan that was met waits for.
-- Gives back what plans have left that are not there any more, as far as it meets them: who waits meets the one before
local function read_claims(keys, args)
  local timers, key, me, deep = keys[1], keys[2], args[1], args[2] == '1'
  local claims, prefix = claims_beside(timers), string.sub(timers, 1, -7)
  local files, plans, seen, alive, looked, queue = {}, {}, {}, {}, {}, {}
  for i = 3, #args do
    local folder = string.match(args[i], '^(.*/)%*$')
    if not folder then
      queue[#queue + 1] = args[i]
    else
      for _, file in ipairs(redis.call('HKEYS', key)) do
        if file ~= '' and (folder == './' or string.sub(file, 1, #folder) == folder) then queue[#queue + 1] = file end
      end
    end
  end
  local asked = #queue
  local function add_plan(id, theirs)
    looked[id] = true
    plans[#plans + 1], plans[#plans + 2] = id, theirs
    for _, file in ipairs(theirs) do queue[#queue + 1] = file end
  end
  local function release_gone(told)
    local gone = false
    for id in string.gmatch(told, '[^%s?]+') do
      if id ~= me and alive[id] == nil and string.sub(id, 1, 1) ~= LEFT_OUT then
        local state = redis.call('HGET', prefix .. 'plan:' .. id, 'state')
        alive[id] = (state ~= false and not ENDS[state]) or keeps_files(claims, id, now_ms())
        if not alive[id] then
          release_kept(timers, id, now_ms())
          gone = true
        end
      end
    end
    return gone
  end
  if me ~= '' then add_plan(me, waits_of(claims, me)) end
  local at = 1
  while at <= #queue do
    local file = queue[at]
    if not seen[file] then
      seen[file] = true
      local value, told
      repeat
        value = redis.call('HGET', key, file) or ''
        told = deep and value or shorten(value, me, at <= asked and SHOWN or 0)
      until not release_gone(told)
      if value ~= '' then
        local n = #files
        files[n + 1], files[n + 2], files[n + 3] = file, told, mark_of(value)
      end
      for id in string.gmatch(deep and value or '', '[^%s?]+') do
        if not looked[id] then add_plan(id, waits_of(claims, id)) end
      end
    end
    at = at + 1
  end
  local count = deep and redis.call('HGET', key, '')
  if count then
    local n = #files
    files[n + 1], files[n + 2], files[n + 3] = '', count, count
  end
  return {files, plans}
end

-- KEYS 1 timers, 2 plans, 3 plan | ARGV 1 plan id
-- Forgets a plan whose keys have gone: its lists, its claims unless it keeps them, its timer. Returns 1, or 0 where it is there
local function forget(keys, args)
  local id = args[1]
  if redis.call('HEXISTS', keys[3], 'version') == 1 then return 0 end
  redis.call('ZREM', keys[2], id)
  put_into_lists(keys[2], id, {})
  if not keeps_files(claims_beside(keys[1]), id, now_ms()) then release_kept(keys[1], id, now_ms()) end
  redis.call('ZREM', keys[1], id)
  return 1
end

-- KEYS 1 timers | ARGV 1 plan id, 2 ms for which a merged change keeps the marks of its goal under another name, or 0
-- Gives back what a plan keeps after its end, as its change is merged or closed. Returns the number of files
local function release_claims(keys, args)
  local claims, id, window, now = claims_beside(keys[1]), args[1], tonumber(args[2]), now_ms()
  if not redis.call('ZSCORE', claims .. ':kept', id) then return 0 end
  local key, files = files_of(claims, id)
  local marks, is_merged = {}, false
  for _, file in ipairs(files) do
    if string.sub(file, 1, #JUST_MERGED) == JUST_MERGED then
      is_merged = true
    elseif string.sub(file, 1, 2) == MARK and file ~= REVIEW then
      marks[#marks + 1] = JUST_MERGED .. string.sub(file, 3)
    end
  end
  if window > 0 and is_merged and keeps_files(claims, id, now) then return 0 end
  local count = release_kept(keys[1], id, now)
  if window > 0 and #marks > 0 then
    for _, mark in ipairs(marks) do redis.call('HSET', key, mark, id) end
    redis.call('HSET', claims, id, string.sub(key, #claims + 2) .. '\n' .. table.concat(marks, '\n'))
    redis.call('ZADD', claims .. ':kept', now + window, id)
  end
  return count
end

-- KEYS 1 timers | ARGV 1 repository, 2 a claim that is no file, 3 the plan that has it from now on, '' for none
-- Has a plan that keeps its files keep this claim alone, with them. Returns 1 where a plan has it then
local function set_claim(keys, args)
  local claims, mark, id = claims_beside(keys[1]), args[2], args[3]
  local key = claims .. ':' .. args[1]
  local holder = redis.call('HGET', key, mark)
  if holder == id and keeps_files(claims, id, now_ms()) then return 1 end
  if holder then
    local _, files = files_of(claims, holder)
    local left = {}
    for _, file in ipairs(files) do
      if file ~= mark then left[#left + 1] = file end
    end
    if #files > 0 then redis.call('HSET', claims, holder, args[1] .. '\n' .. table.concat(left, '\n')) end
    redis.call('HDEL', key, mark)
  end
  if id == '' or not keeps_files(claims, id, now_ms()) then return 0 end
  redis.call('HSET', key, mark, id)
  redis.call('HSET', claims, id, redis.call('HGET', claims, id) .. '\n' .. mark)
  return 1
end

redis.register_function{function_name = 'planner_set_claim', callback = set_claim, flags = {'allow-oom'}}
redis.register_function{function_name = 'planner_read_claims', callback = read_claims, flags = {'allow-oom'}}
redis.register_function{function_name = 'planner_forget', callback = forget, flags = {'allow-oom'}}
redis.register_function{function_name = 'planner_release_claims', callback = release_claims, flags = {'allow-oom'}}

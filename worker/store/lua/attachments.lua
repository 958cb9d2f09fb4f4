-- Attachments: diffs of attempts, by their digests, with the figures of their files. What is kept is bounded in bytes.

local function name_of(field) return string.match(field, '^%S+') end

-- Drops what is kept under a field, and takes its bytes off the sums.
local function drop(keys, field)
  local size = redis.call('HSTRLEN', keys[2], field) + redis.call('HSTRLEN', keys[2], field .. ' diff')
  redis.call('HDEL', keys[2], field, field .. ' diff')
  redis.call('ZREM', keys[3], field)
  redis.call('HINCRBY', keys[4], '', -size)
  if redis.call('HINCRBY', keys[4], name_of(field), -size) <= 0 then redis.call('HDEL', keys[4], name_of(field)) end
end

local MOST_ATTEMPTS = 100000 -- whose attachments are known; then all are forgotten, and each may send again

local MOST_OF_A_KIND = 3 -- that an attempt has

-- Finds a place for this attachment of an attempt. It may have several of a kind, since any controller may name the attempt
-- of another one, and a controller may send a transcript again with another cut: the outcome names the digest that counts.
-- What an outcome names takes the place of the oldest one. Returns false where there is no place
local function place(keys, attempt, field, is_named)
  if attempt == '' then return true end
  if redis.call('HLEN', keys[5]) >= MOST_ATTEMPTS then redis.call('DEL', keys[5]) end
  local digest, known = string.match(field, '%S+$'), redis.call('HGET', keys[5], attempt) or ''
  if string.find(known, digest, 1, true) then return true end
  if #known >= MOST_OF_A_KIND * #digest then
    if not is_named then return false end
    local oldest = string.sub(known, 1, #digest)
    drop(keys, string.sub(field, 1, -#digest - 1) .. oldest)
    known = string.sub(known, #digest + 1)
  end
  redis.call('HSET', keys[5], attempt, known .. digest)
  return true
end

-- KEYS 1 stream, 2 kept, 3 order, 4 sizes, 5 attempts
-- ARGV 1 entry, 2 field: tenant, plan and digest, 3 figures ('' to drop the entry alone), 4 diff ('' to keep none), 5 now in ms, 6 oldest in ms,
--      7 most bytes of all, 8 most bytes of a tenant, 9 plan, step, attempt and kind,
--      10 '1' if an outcome of the attempt names the digest
-- All that is kept expires with the last one that came. Returns how many bytes are kept, or -1 where nothing is done since
-- the attempt has no place
local function keep_attachment(keys, args)
  local field, tenant = args[2], name_of(args[2])
  local is_new = args[3] ~= '' and redis.call('HEXISTS', keys[2], field) == 0
  if is_new and not place(keys, args[9], field, args[10] == '1') then return -1 end
  redis.call('XDEL', keys[1], args[1])
  if is_new then
    redis.call('HSET', keys[2], field, args[3])
    if args[4] ~= '' then redis.call('HSET', keys[2], field .. ' diff', args[4]) end
    redis.call('ZADD', keys[3], args[5], field)
    redis.call('HINCRBY', keys[4], '', #args[3] + #args[4])
    redis.call('HINCRBY', keys[4], tenant, #args[3] + #args[4])
  end
  for _, old in ipairs(redis.call('ZRANGE', keys[3], '-inf', '(' .. args[6], 'BYSCORE', 'LIMIT', 0, 100)) do drop(keys, old) end
  if tonumber(redis.call('HGET', keys[4], tenant) or 0) > tonumber(args[8]) then
    for _, old in ipairs(redis.call('ZRANGE', keys[3], 0, -1)) do
      if name_of(old) == tenant then
        drop(keys, old)
        if tonumber(redis.call('HGET', keys[4], tenant) or 0) <= tonumber(args[8]) then break end
      end
    end
  end
  while tonumber(redis.call('HGET', keys[4], '') or 0) > tonumber(args[7]) do
    local oldest = redis.call('ZRANGE', keys[3], 0, 0)[1]
    if not oldest then break end
    drop(keys, oldest)
  end
  local kept_ms = math.max(1, tonumber(args[5]) - tonumber(args[6]))
  for at = 2, 5 do redis.call('PEXPIRE', keys[at], kept_ms) end
  return tonumber(redis.call('HGET', keys[4], '') or 0)
end

redis.register_function{function_name = 'planner_keep_attachment', callback = keep_attachment, flags = {'allow-oom'}}

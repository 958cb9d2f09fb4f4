-- The layouts of commit.lua that workers of older versions call, while these run beside newer ones.
local CLAIM = 19 -- the section of claims

-- Lays out the arguments of an older layout as the newest one has them, which has more sections.
local function fill_sections(args, known)
  for i = known + 1, #SECTIONS do table.insert(args, FIRST_COUNT + i - 1, '0') end
end

-- The layout before the claim of a plan was put among those on a file: all of them came, and those that had been seen.
local function commit_6(keys, args)
  local rows = tonumber(args[FIRST_COUNT + CLAIM - 1])
  if not rows or rows == 0 then return commit_7(keys, args) end
  local at = FIRST_ITEM
  for i = 1, CLAIM - 1 do at = at + (tonumber(args[FIRST_COUNT + i - 1]) or 0) * SECTIONS[i] end
  local laid, upto = {}, at + rows * (OF_CLAIM - 1) - 1
  for i, value in ipairs(args) do
    laid[#laid + 1] = value
    if i >= at and i <= upto and (i - at + 1) % (OF_CLAIM - 1) == 0 then laid[#laid + 1] = WHOLE end
  end
  return commit_7(keys, laid)
end

-- The layout before files were claimed.
local function commit_5(keys, args)
  fill_sections(args, 18)
  return commit_7(keys, args)
end

-- The layout before plans remembered anything for each other, and before their ends were summed.
local function commit_4(keys, args)
  fill_sections(args, 16)
  return commit_7(keys, args)
end

-- The reply before it named the entries of the specs.
local function commit_3(keys, args)
  fill_sections(args, 16)
  local number = commit(keys, args)
  return number
end

-- The layout before there were lists. Whoever commits so does not say in which the plan is: a sweep finds out.
local function commit_2(keys, args)
  fill_sections(args, 15)
  local number = commit(keys, args)
  if type(number) == 'number' then redis.call('ZADD', keys[10] .. ':unlisted', 0, args[1]) end
  return number
end

-- The layout before there was anything to recall.
local function commit_1(keys, args)
  table.insert(args, FIRST_COUNT + 14, '0')
  return commit_2(keys, args)
end

redis.register_function{function_name = 'planner_commit_1', callback = commit_1, flags = {'allow-oom'}}
redis.register_function{function_name = 'planner_commit_2', callback = commit_2, flags = {'allow-oom'}}
redis.register_function{function_name = 'planner_commit_3', callback = commit_3, flags = {'allow-oom'}}
redis.register_function{function_name = 'planner_commit_4', callback = commit_4, flags = {'allow-oom'}}
redis.register_function{function_name = 'planner_commit_5', callback = commit_5, flags = {'allow-oom'}}
redis.register_function{function_name = 'planner_commit_6', callback = commit_6, flags = {'allow-oom'}}

-- The claims on a file as one text, as tasks/plan/file_claims.py has it: the plans' ids in their order, spaced, '?' before
-- one that waits. Thousands of plans may want one file, so nothing here goes through all words but where they are counted.
local WAITS, LEFT_OUT = '?', '+'
local SHOWN = 5      -- of the first claims on a file: as MOST_PLANS in file_claims.py
local LONGEST = 127  -- bytes; longer than any claim

-- Where the claim of a plan begins and ends; nothing where it has none.
local function claim_of(text, id)
  local at = id ~= '' and string.find(text, id, 1, true)
  while at do
    local from, upto = at, at + #id - 1
    if string.sub(text, at - 1, at - 1) == WAITS then from = at - 1 end
    local begins = from == 1 or string.sub(text, from - 1, from - 1) == ' '
    if begins and (upto == #text or string.sub(text, upto + 1, upto + 1) == ' ') then return from, upto end
    at = string.find(text, id, at + 1, true)
  end
end

-- Where the claim begins that ends at `upto`.
local function begin_of(text, upto)
  local from = math.max(1, upto - LONGEST)
  return from - 1 + (string.match(string.sub(text, from, upto), '.* ()') or 1)
end

-- How many claims stand at from..upto. Those of plans that do not wait are all as long.
local function count_claims(text, from, upto)
  if not string.find(text, WAITS, from, true) then
    local length = (string.find(text, ' ', from, true) or upto + 1) - from + 1
    return math.floor((upto - from + 2) / length)
  end
  local count, at = 1, string.find(text, ' ', from, true)
  while at and at < upto do
    count = count + 1
    at = string.find(text, ' ', at + 1, true)
  end
  return count
end

-- The claims on a file as far as a plan has to know them: the first `most` and the last one, or for 0 neither; and its own
-- with the one before. '+n' stands where n others are left out.
local function shorten(text, me, most)
  if text == '' then return text end
  local parts, done = {}, -1
  local function leave_out(upto)
    if upto > done + 1 then parts[#parts + 1] = LEFT_OUT .. count_claims(text, done + 2, upto) end
  end
  local function keep(from, upto)
    if from < done then from = done + 2 end
    if from > upto then return end
    leave_out(from - 2)
    parts[#parts + 1] = string.sub(text, from, upto)
    done = upto
  end
  for _ = 1, most do
    if done < #text then keep(done + 2, (string.find(text, ' ', done + 2, true) or #text + 1) - 1) end
  end
  local from, upto = claim_of(text, me)
  if from then
    if from > 1 then keep(begin_of(text, from - 2), from - 2) end
    keep(from, upto)
  end
  if most > 0 then keep(begin_of(text, #text), #text) end
  leave_out(#text)
  return table.concat(parts, ' ')
end

-- What tells the claims on a file apart from those that are there once others have come or gone: how many bytes they
-- take, and the last one.
local function mark_of(text)
  if text == '' then return '0' end
  return #text .. ' ' .. string.sub(text, begin_of(text, #text))
end

-- The plan that waits directly behind the claim that ends at `upto`, if one does.
local function follower_of(text, upto)
  return string.match(text, '^ %?(%S+)', upto + 1)
end

-- The claims on a file without that of a plan, and the plan that waited for it first, if one did.
local function without(text, id)
  local from, upto = claim_of(text, id)
  if not from then return text end
  local left = from == 1 and string.sub(text, upto + 2) or string.sub(text, 1, from - 2) .. string.sub(text, upto + 1)
  return left, follower_of(text, upto)
end

-- The claims on a file with `claim` in the place of that of the plan where it `has` one; else before that of the plan
-- `behind`, or at the end where that is ''. Also returns where it ends.
local function put_claim(text, id, claim, behind, has)
  if has then
    local from, upto = claim_of(text, id)
    if from then return string.sub(text, 1, from - 1) .. claim .. string.sub(text, upto + 1), from - 1 + #claim end
  end
  local from = claim_of(text, behind)
  if from then return string.sub(text, 1, from - 1) .. claim .. ' ' .. string.sub(text, from), from - 1 + #claim end
  text = text == '' and claim or text .. ' ' .. claim
  return text, #text
end

-- Sums of the plans that ended, by hour and by day, in the partition of each plan: for people, over 90 days.
--
-- planner:{p}:sums:hour:<n>  hash  "<tenant> <repository>" -> "<name>=<figure> ...": of the n-th hour since 1970
-- planner:{p}:sums:day:<n>   hash  the same of the n-th day
--
-- Names are percent-encoded. Behind the first `series` of them, a tenant's plans are added under "<tenant> *", and
-- those of many tenants under "* *", so that no period has more than twice as many, and one.
local PERIODS = {
  {name = 'hour', ms = 3600000, series = 64}, -- as many as are packed: see hash-max-listpack-entries
  {name = 'day', ms = 86400000, series = 256},
}
local SUMS_KEPT = 90 * 86400 -- s, from the end of the period

-- The figures of two texts, in the order in which they came.
local function sum_of(value, added)
  local order, sums = {}, {}
  for _, text in ipairs({value, added}) do
    for name, figure in string.gmatch(text, '(%S+)=(%d+)') do
      if not sums[name] then order[#order + 1] = name end
      sums[name] = (sums[name] or 0) + figure
    end
  end
  for i, name in ipairs(order) do order[i] = string.format('%s=%.0f', name, sums[name]) end
  return table.concat(order, ' ')
end

local function add_to_period(key, series, most, added)
  local value = redis.call('HGET', key, series)
  if value then return redis.call('HSET', key, series, sum_of(value, added)) end
  local count = redis.call('HLEN', key)
  if count >= most then
    series = string.match(series, '^%S+') .. ' *'
    value = redis.call('HGET', key, series)
    if not value and count >= 2 * most then
      series = '* *'
      value = redis.call('HGET', key, series)
    end
  end
  redis.call('HSET', key, series, sum_of(value or '', added))
  return count
end

-- Adds what a plan used that ended at `now`. The keys are no arguments: they begin with what the events' key does.
local function add_to_sums(events, now, series, added)
  local prefix = string.gsub(events, 'events$', 'sums:')
  for _, period in ipairs(PERIODS) do
    local number = math.floor(now / period.ms)
    local key = string.format('%s%s:%.0f', prefix, period.name, number)
    if redis.call('EXISTS', key) == 0 then
      add_to_period(key, series, period.series, added)
      redis.call('EXPIREAT', key, string.format('%.0f', (number + 1) * period.ms / 1000 + SUMS_KEPT))
    else
      add_to_period(key, series, period.series, added)
    end
  end
end

-- One exchange of a process with the limit that it shares: it reports what became of its permits, and gets those whose turn has come.
-- The whole script is one step for all processes. `now` is the server's clock, put before this text.
--
-- window   permit -> when its slot is free again: an upper bound until the request is known to be sent
-- starts   permit -> when it was granted, for the least wait of those behind it
-- running  permit -> when its request has ended at the latest
-- queue    waiting ticket -> its number
-- owners   process with waiting tickets -> when it means to look again
-- state    failures in a row, pauses, the test request, the last number
local window, starts, running, queue, owners, state = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local limits, message = cjson.decode(ARGV[1]), cjson.decode(ARGV[2])
local period, most = limits.per_s, limits.most

local function number(field)
  return tonumber(redis.call('HGET', state, field) or 0)
end

local function drop_expired(key, grace_s)
  local expired = redis.call('ZRANGEBYSCORE', key, '-inf', now - grace_s)
  redis.call('ZREMRANGEBYSCORE', key, '-inf', now - grace_s)
  return expired
end

local function owner(ticket)
  return string.match(ticket, '^[^:]*')
end

for _, permit in ipairs(drop_expired(window, 0)) do
  redis.call('ZREM', starts, permit)
end
drop_expired(running, 0)
local silent = {}
for _, process in ipairs(drop_expired(owners, limits.owner_s)) do
  silent[process] = process ~= message.process
end
if next(silent) then
  for _, ticket in ipairs(redis.call('ZRANGE', queue, 0, -1)) do
    if silent[owner(ticket)] then
      redis.call('ZREM', queue, ticket)
    end
  end
end

local function occupy(permit, free_in_s)
  if free_in_s > 0 then
    redis.call('ZADD', window, now + free_in_s, permit)
  else
    redis.call('ZREM', window, permit)
    redis.call('ZREM', starts, permit)
  end
end

local report = {}
function report.sent(permit, free_in_s)
  occupy(permit, free_in_s)
end
function report.ended(permit, free_in_s)
  occupy(permit, free_in_s)
  redis.call('ZREM', running, permit)
  if redis.call('HGET', state, 'test') == permit then
    redis.call('HDEL', state, 'test', 'test_until')
  end
end
function report.left(ticket)
  redis.call('ZREM', queue, ticket)
end
function report.failed(kind, text)
  redis.call('HINCRBY', state, 'failures', 1)
  redis.call('HSET', state, 'failed_at', now, 'kind', kind, 'text', text)
end
function report.succeeded()
  redis.call('HDEL', state, 'failures')
end
function report.closed(seconds)
  redis.call('HSET', state, 'closed_until', math.max(number('closed_until'), now + seconds))
end
for _, entry in ipairs(message.reports) do
  report[entry[1]](entry[2], entry[3])
end

local lease = {}
for _, ticket in ipairs(message.tickets) do
  lease[ticket[1]] = ticket[2]
  if redis.call('ZSCORE', running, ticket[1]) then -- granted, but the answer was lost: it keeps its turn
    redis.call('ZREM', window, ticket[1])
    redis.call('ZREM', running, ticket[1])
    redis.call('ZADD', queue, 0, ticket[1])
  elseif not redis.call('ZSCORE', queue, ticket[1]) then
    redis.call('ZADD', queue, redis.call('HINCRBY', state, 'number', 1), ticket[1])
  end
end

local failures = number('failures')
local closed_s = math.max(number('closed_until') - now, 0)
local circuit_s = 0
if failures >= limits.failures then
  local pause_s = number('failed_at') + limits.pause_s - now
  if pause_s > 0 or number('test_until') > now then
    circuit_s = math.max(1, pause_s)
  end
end

local granted = {}
local free = math.min(most - redis.call('ZCARD', window), limits.at_once - redis.call('ZCARD', running))
if limits.settling_s > 0 or closed_s > 0 or circuit_s > 0 then
  free = 0
elseif failures >= limits.failures then
  free = math.min(free, 1)
end
if free > 0 and message.tickets[1] then
  -- A slot waits for the ticket whose turn it is, but not for a process that is late: that keeps its place only.
  local late = {}
  for _, process in ipairs(redis.call('ZRANGEBYSCORE', owners, '-inf', now - limits.late_s)) do
    late[process] = true
  end
  for _, ticket in ipairs(redis.call('ZRANGE', queue, 0, -1)) do
    local hold_s = lease[ticket]
    if free <= 0 then
      break
    end
    if hold_s or not late[owner(ticket)] then
      free = free - 1
    end
    if hold_s then
      redis.call('ZREM', queue, ticket)
      redis.call('ZADD', window, now + hold_s + limits.transit_s + period, ticket)
      redis.call('ZADD', starts, now, ticket)
      redis.call('ZADD', running, now + hold_s, ticket)
      if failures >= limits.failures then
        redis.call('HSET', state, 'test', ticket, 'test_until', now + hold_s)
      end
      granted[#granted + 1] = ticket
    end
  end
end

-- The least wait of the request at this place of the queue: that of the permit whose slot becomes its own.
local used = redis.call('ZCARD', starts)
local function least_wait_s(rank)
  local periods, place = 0, used + rank - most
  while place >= used do
    periods, place = periods + 1, place - most
  end
  local first_s = 0
  if place >= 0 then
    local start = tonumber(redis.call('ZRANGE', starts, place, place, 'WITHSCORES')[2])
    first_s = math.max(0, start + period - now)
  end
  return first_s + periods * period
end

-- When to look again: often where responses are quick, and rarely where they take long.
local soon_s = limits.poll_s
local oldest = redis.call('ZRANGE', running, 0, 0)[1]
if oldest then
  local start = redis.call('ZSCORE', starts, oldest)
  soon_s = math.min(soon_s, math.max(limits.poll_s / 10, (now - (start or 0)) / 10))
end

local waits, pause_s = {}, limits.long_poll_s
for _, ticket in ipairs(message.tickets) do
  local rank = redis.call('ZRANK', queue, ticket[1])
  if rank then
    local least_s = least_wait_s(rank)
    local wait_s = math.max(least_s, limits.settling_s, closed_s)
    waits[ticket[1]] = least_s
    if wait_s <= limits.poll_s then
      local place = redis.call('ZCARD', window) + rank - most
      local ending = place >= 0 and redis.call('ZRANGE', window, place, place, 'WITHSCORES')[2]
      local free_s = ending and math.max(0, ending - now) or soon_s
      wait_s = math.min(free_s, rank < limits.at_once and soon_s or limits.poll_s)
    end
    pause_s = math.min(pause_s, wait_s)
  end
end
if message.tickets[1] then
  redis.call('ZADD', owners, now + pause_s, message.process)
end

local live_s = period + limits.pause_s + limits.longest_hold_s
for _, key in ipairs({window, starts, running, queue, owners}) do
  redis.call('PEXPIRE', key, math.ceil(live_s * 1000))
end
redis.call('PEXPIRE', state, math.ceil((live_s + closed_s + limits.forget_s) * 1000))
local length = redis.call('ZCARD', queue)
local fault = redis.call('HMGET', state, 'kind', 'text')
return cjson.encode({
  granted = granted,
  waits = waits,
  pause_s = pause_s,
  settling_s = limits.settling_s,
  closed_s = closed_s,
  circuit_s = circuit_s,
  failures = failures,
  kind = fault[1] or '',
  text = fault[2] or '',
  available = math.max(0, most - redis.call('ZCARD', window) - length),
  wait_s = least_wait_s(length)
})

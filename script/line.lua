-- KEYS: the line of a lock's key, and the key. The line is a sorted set of the clients that wait for
-- the key. A score is a client's ticket. A member is when its place ends, in milliseconds of the
-- server's clock, and the client's name behind a colon.
-- ARGV: the client's name; its ticket, or 0; for how many milliseconds its place is to last; how many
-- places the line has at most; and the grace, in milliseconds. If the key is free, and the first
-- client is another, its place ends after the grace. Before that it takes its turn or asks again.
-- The client keeps its place, or gets one at the end. Places that have ended are dropped where the
-- line begins, and before the client.
-- Reply: a list of the client's ticket, 0 if the line is full; the ticket before it, 0 if it is the
-- first; how many tickets are before it; and how long the key lasts, as by PTTL.
if redis.replicate_commands then redis.replicate_commands() end -- else 6.2 may not write after TIME
local line, name, ticket, call = KEYS[1], ':' .. ARGV[1], tonumber(ARGV[2]), redis.call
local text = function(n) return string.format('%.0f', n) end
local time, left = call('TIME'), call('PTTL', KEYS[2])
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- The first place at this end of the line that has not ended, and when it ends.
local function living(...)
  while true do
    local place = call('ZRANGE', line, ...)
    local ends = place[1] and tonumber(string.match(place[1], '^%d+'))
    if not ends or ends > now and ends <= now + ARGV[3] then return place, ends end
    call('ZREM', line, place[1]) -- or the clock has gone back
  end
end
local own = call('ZRANGE', line, ARGV[2], ARGV[2], 'BYSCORE')[1]
if own and string.sub(own, -#name) == name then
  call('ZREM', line, own)
elseif call('ZCOUNT', line, 0, '+inf') >= tonumber(ARGV[4]) then
  return { 0, 0, 0, left }
else -- a ticket that no earlier line had
  local last = call('ZRANGE', line, -1, -1, 'WITHSCORES')[2] or 0
  ticket = math.max(last + 1, time[1] * 1000000 + time[2])
end
call('ZADD', line, text(ticket), text(now + ARGV[3]) .. name)
call('PEXPIRE', line, ARGV[3])
local first, ends = living(0, 0, 'WITHSCORES')
if left == -2 and tonumber(first[2]) < ticket and ends > now + ARGV[5] then
  call('ZREM', line, first[1])
  call('ZADD', line, first[2], text(now + ARGV[5]) .. string.match(first[1], ':.*'))
end
local below = '(' .. text(ticket)
local before = living(below, 0, 'BYSCORE', 'REV', 'LIMIT', 0, 1, 'WITHSCORES')
return { ticket, tonumber(before[2] or 0), call('ZCOUNT', line, 0, below), left }

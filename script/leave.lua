-- KEYS: a line, as in line.lua, and the key that tells the next client that this ticket has left.
-- ARGV: the client's name; its ticket; for how many milliseconds the told key lasts; and for how many
-- milliseconds the place of the next client lasts at most, if that is the first now.
-- Takes the client out of the line, and sets the key if another is behind it. If the next client is
-- alive, it takes its turn or asks again before its place ends.
-- Reply: how many clients are in the line.
if redis.replicate_commands then redis.replicate_commands() end -- else 6.2 may not write after TIME
local line, name, ticket, call = KEYS[1], ':' .. ARGV[1], ARGV[2], redis.call
local own = call('ZRANGE', line, ticket, ticket, 'BYSCORE')[1]
if own and string.sub(own, -#name) == name then call('ZREM', line, own) end
local behind = call('ZRANGE', line, '(' .. ticket, '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
if behind[1] then
  call('SET', KEYS[2], '', 'PX', ARGV[3])
  local time, ends, rest = call('TIME'), string.match(behind[1], '^(%d+)(.*)$')
  local soon = time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[4]
  if call('ZCOUNT', line, 0, '(' .. behind[2]) == 0 and tonumber(ends) > soon then
    call('ZREM', line, behind[1])
    call('ZADD', line, behind[2], string.format('%.0f', soon) .. rest)
  end
end
return call('ZCOUNT', line, 0, '+inf')

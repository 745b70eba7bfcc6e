-- KEYS: the key of the layouts in use, a hash with a field for each configuration of clients. ARGV:
-- the own field; for how many milliseconds it lasts; the client's owner, without spaces; and the
-- run_ids that it knows. A value has the field's end in milliseconds of the server's clock, the
-- owner and the run_ids, with a space between two. The script drops fields that have ended or are
-- none, and of more than 64 fields, or of 96,000 bytes of others, those that end first. It sets the
-- own one if that is missing, has other run_ids, or would end ten seconds too early: so of many
-- clients one writes. An end never comes nearer. The key ends with its last field. Reply: the
-- server's time in milliseconds, and the name and the value of each other field.
if redis.replicate_commands then redis.replicate_commands() end -- else 6.2 may not write after TIME
local key, own, all, time = KEYS[1], ARGV[1], redis.call('HGETALL', KEYS[1]), redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local text = function(n) return string.format('%.0f', n) end
local values, ends, others, reply, bytes = {}, {}, {}, { text(now) }, 0
for i = 1, #all, 2 do
  local field, digits = all[i], string.match(all[i + 1], '^(%d+) ') or ''
  values[field], ends[field] = all[i + 1], #digits < 16 and tonumber(digits) or 0
  if field ~= own then others[#others + 1] = field end
end
table.sort(others, function(a, b)
  if ends[a] == ends[b] then return a < b end
  return ends[a] > ends[b]
end)
for _, field in ipairs(others) do
  local size = #field + #values[field]
  if ends[field] <= now or #reply > 2 * 63 or bytes + size > 96000 then
    redis.call('HDEL', key, field)
  else
    bytes, reply[#reply + 1], reply[#reply + 2] = bytes + size, field, values[field]
  end
end
local last, wanted = ends[own] or 0, now + tonumber(ARGV[2])
if last < wanted - 10000 or string.match(values[own], '^%d+ %S+ (.*)') ~= ARGV[4] then
  last = math.max(last, wanted)
  redis.call('HSET', key, own, text(last) .. ' ' .. ARGV[3] .. ' ' .. ARGV[4])
  redis.call('PEXPIRE', key, text(math.max(last, ends[others[1]] or 0) - now))
end
return reply

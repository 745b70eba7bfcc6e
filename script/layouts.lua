-- KEYS: the key of the layouts in use. It has ENTRY=END for each, with a space between two. An
-- ENTRY is the one or two IDs of a client's layouts, with a comma between two. END is in
-- milliseconds of the server's clock. ARGV: the caller's own entry; for how many milliseconds it
-- lasts, 0 to leave none; and 1 to leave none while a foreign entry is there, otherwise empty. An
-- entry is foreign if it has none of the caller's IDs. The script drops the entries that have ended
-- and adds its own, or renews it if another client has not done so in the last ten seconds. An end
-- never comes nearer. Of more than 64 entries it drops the others that end first. The key ends with
-- the last entry. Reply: the other entries that have not ended, as text, with the milliseconds that
-- are left to each in place of its end.
if redis.replicate_commands then redis.replicate_commands() end -- else 6.2 may not write after TIME
local own, lasts, time = ARGV[1], tonumber(ARGV[2]), redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local mine, ends, others, reply, foreign = {}, {}, {}, {}, false
for id in string.gmatch(own, '%w+') do mine[id] = true end
local format = function(entry, n) return entry .. '=' .. string.format('%.0f', n) end
for entry, digits in string.gmatch(redis.call('GET', KEYS[1]) or '', '([%w,]+)=(%d+)') do
  if #digits <= 15 and #entry <= 64 and tonumber(digits) > now and not ends[entry] then
    ends[entry] = tonumber(digits)
    if entry ~= own then
      local shared = false
      for id in string.gmatch(entry, '%w+') do shared = shared or mine[id] end
      foreign = foreign or not shared
      others[#others + 1] = entry
    end
  end
end
table.sort(others, function(a, b)
  if ends[a] == ends[b] then return a < b end
  return ends[a] > ends[b]
end)
for i, entry in ipairs(others) do reply[i] = format(entry, ends[entry] - now) end
if lasts > 0 and not (foreign and ARGV[3] == '1') and (ends[own] or 0) < now + lasts - 10000 then
  ends[own] = math.max(ends[own] or 0, now + lasts)
  local text, last = { format(own, ends[own]) }, ends[own]
  for i = 1, math.min(#others, 63) do
    text[i + 1] = format(others[i], ends[others[i]])
    last = math.max(last, ends[others[i]])
  end
  redis.call('SET', KEYS[1], table.concat(text, ' '), 'PX', string.format('%.0f', last - now))
end
return table.concat(reply, ' ')

-- KEYS: of each set its keys, and then the fence key of each of them, in the same order. ARGV: if
-- every set has one key and all have the same TTL, the TTL in milliseconds, and then for each set
-- its token, its fence and the last number that it reserves. Otherwise an empty string and then
-- five values for each set: how many keys it has, its TTL, its token, its fence and the last
-- number. A set is granted as in acquire.lua, but only if its fence is above the numbers of all its
-- fence keys. Then these have its last number, for a day. If a fence key is no number, or NaN,
-- somebody wrote it by mistake: the set's key counts as held. Reply: as in acquire.lua. But if the
-- highest number of the fence keys is not below the fence, that number, negative, replaces the
-- index of a key.
local KEYS, ARGV, call = KEYS, ARGV, redis.call
local compact = ARGV[1] ~= ''
local values = compact and 3 or 5
-- A set of this call that changes one of these values takes the key too: later sets find it held.
local seen = call('MGET', unpack(KEYS))
local granted, last, refused = 0, 0, nil
for set = 1, (#ARGV - 1) / values do
  local at = values * (set - 1) + 2
  local count, ttl = 1, ARGV[1]
  if not compact then
    count, ttl = tonumber(ARGV[at]), ARGV[at + 1]
    at = at + 2
  end
  local token, fence, reserved = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2]
  local first = last + 1
  local fences = last + count
  last = fences + count
  local found, highest = 0, 0
  if count == 1 then
    if seen[first] then found = 1 end
  elseif call('EXISTS', unpack(KEYS, first, fences)) > 0 then
    found = 1
    while call('EXISTS', KEYS[first + found - 1]) == 0 do found = found + 1 end
  end
  if found == 0 then
    for i = 1, count do
      local number = tonumber(seen[fences + i] or 0)
      if not number or number ~= number then
        found = i
      elseif number >= fence then
        highest = math.max(highest, number)
      end
    end
    if found == 0 and highest > 0 then found = -math.min(highest, 9007199254740991) end
  end
  if found == 0 and count == 1 and not call('SET', KEYS[first], token, 'NX', 'PX', ttl) then
    found = 1
  end
  if found == 0 then
    for k = first, fences do
      if count > 1 then call('SET', KEYS[k], token, 'NX', 'PX', ttl) end
      call('SET', KEYS[k + count], reserved, 'PX', 86400000)
    end
    granted = granted + 1
  else
    refused = refused or { 0 }
    refused[#refused + 1] = set
    refused[#refused + 1] = found
  end
end
if not refused then return granted end
refused[1] = granted
return refused

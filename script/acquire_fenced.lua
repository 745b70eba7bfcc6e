-- KEYS: of each set its keys, and then the companion of each of them, in the same order.
-- ARGV: the TTL in milliseconds, and then for each set its token, its fence and the last number that it reserves, where every
-- set has one key and all have the same TTL; else an empty string and then five values for each set: how many keys it has, its
-- TTL, its token, its fence and the last number.
-- A set is granted as in acquire.lua, but only if its fence is above what all of its companions have; they have its last number
-- then, for a day. A companion that is no number, or NaN, is somebody's key by mistake: it counts as one that is held.
-- Reply: as in acquire.lua; instead of the place of a key stands, negative, the highest number of the companions where that is not
-- below the fence.
local KEYS, ARGV, call = KEYS, ARGV, redis.call
local shared = ARGV[1] ~= ''
local values = shared and 3 or 5
-- What a set of this call changes of this is behind a key that is held then.
local seen = call('MGET', unpack(KEYS))
local granted, last, refused = 0, 0, nil
for set = 1, (#ARGV - 1) / values do
  local at = values * (set - 1) + 2
  local count, ttl = 1, ARGV[1]
  if not shared then
    count, ttl = tonumber(ARGV[at]), ARGV[at + 1]
    at = at + 2
  end
  local token, fence, reserved = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2]
  local first = last + 1
  local beside = last + count
  last = beside + count
  local found, highest = 0, 0
  if count == 1 then
    if seen[first] then found = 1 end
  elseif call('EXISTS', unpack(KEYS, first, beside)) > 0 then
    found = 1
    while call('EXISTS', KEYS[first + found - 1]) == 0 do found = found + 1 end
  end
  if found == 0 then
    for i = 1, count do
      local number = tonumber(seen[beside + i] or 0)
      if not number or number ~= number then
        found = i
      elseif number >= fence then
        highest = math.max(highest, number)
      end
    end
    if found == 0 and highest > 0 then found = -math.min(highest, 9007199254740991) end
  end
  if found == 0 and count == 1 and not call('SET', KEYS[first], token, 'NX', 'PX', ttl) then found = 1 end
  if found == 0 then
    for k = first, beside do
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

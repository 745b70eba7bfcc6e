-- KEYS: the keys of all sets, one set after another, and then the fence key of each of them, in the
-- same order. ARGV: if every set has one key and asks for one number, and all have the same TTL,
-- the TTL in milliseconds, and then for each set its token and its fence. Otherwise an empty string
-- and then five values for each set: how many keys it has, its TTL, its token, its fence and the
-- last number that it reserves. A set is granted as in acquire.lua, but only if its fence is above
-- the numbers of all its fence keys. Then these have its last number, for a day. If a fence key is
-- no number, or NaN, somebody wrote it by mistake: the set's key counts as held. Reply: as in
-- acquire.lua. But if no key is held, and the highest number of the fence keys is not below the
-- fence, that number, negative, replaces the index of a key.
local KEYS, ARGV, call = KEYS, ARGV, redis.call
local compact = ARGV[1] ~= ''
local keys = #KEYS / 2
-- A set of this call that changes one of these values takes the key too: later sets find it held.
local numbers = call('MGET', unpack(KEYS, keys + 1))
local granted, last, refused = 0, 0, nil
for set = 1, compact and keys or (#ARGV - 1) / 5 do
  local count, ttl, token, fence = 1, ARGV[1], ARGV[2 * set], ARGV[2 * set + 1]
  local reserved = fence
  if not compact then
    local at = 5 * set - 3
    count, ttl, token = tonumber(ARGV[at]), ARGV[at + 1], ARGV[at + 2]
    fence, reserved = ARGV[at + 3], ARGV[at + 4]
  end
  local first = last + 1
  last = last + count
  local found, highest = 0, 0
  fence = tonumber(fence)
  for k = first, last do
    local number = tonumber(numbers[k] or 0)
    if not number or number ~= number then
      found = k - first + 1
    elseif number >= fence then
      highest = math.max(highest, number)
    end
  end
  if found == 0 and highest > 0 then found = -math.min(highest, 9007199254740991) end
  if count > 1 or found < 0 then -- else SET NX says whether the key is held
    if call('EXISTS', unpack(KEYS, first, last)) > 0 then
      found = 1
      while call('EXISTS', KEYS[first + found - 1]) == 0 do found = found + 1 end
    end
  end
  if found == 0 and count == 1 and not call('SET', KEYS[first], token, 'NX', 'PX', ttl) then
    found = 1
  end
  if found == 0 then
    for k = first, last do
      if count > 1 then call('SET', KEYS[k], token, 'NX', 'PX', ttl) end
      call('SET', KEYS[keys + k], reserved, 'PX', '86400000') -- a number would be formatted
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

-- KEYS: the keys of all sets, one set after another.
-- ARGV: the TTL in milliseconds and then the token of each set, if every set has one key and all
-- have the same TTL. Otherwise an empty string and then three values for each set: how many keys it
-- has, its token, its TTL.
-- A set is granted as a whole, each key as by SET NX PX, or left alone as a whole.
-- Reply: the number of sets if all were granted. Otherwise a list: the number granted, and then two
-- numbers for each refused set: its index and the index in it of a key that is held, from 1.
local KEYS, ARGV, call = KEYS, ARGV, redis.call -- locals are read faster
local compact = ARGV[1] ~= ''
local granted, last, refused = 0, 0, nil
for set = 1, compact and #KEYS or (#ARGV - 1) / 3 do
  local count, token, ttl = 1, ARGV[set + 1], ARGV[1]
  if not compact then
    count, token, ttl = tonumber(ARGV[3 * set - 1]), ARGV[3 * set], ARGV[3 * set + 1]
  end
  local first, held = last + 1, 0
  last = last + count
  if count == 1 then
    if not call('SET', KEYS[first], token, 'NX', 'PX', ttl) then held = 1 end
  elseif call('EXISTS', unpack(KEYS, first, last)) > 0 then
    held = 1
    while call('EXISTS', KEYS[first + held - 1]) == 0 do held = held + 1 end
  else
    for k = first, last do call('SET', KEYS[k], token, 'NX', 'PX', ttl) end
  end
  if held == 0 then
    granted = granted + 1
  else
    refused = refused or { 0 }
    refused[#refused + 1] = set
    refused[#refused + 1] = held
  end
end
if not refused then return granted end
refused[1] = granted
return refused

-- KEYS: the keys of all sets, one set after another. ARGV: an empty string, and then three values for
-- each set: how many keys it has, its token, its TTL in milliseconds.
-- The first key of each set that is free is taken, as by SET NX PX, and no other.
-- Reply: for each set the index in it of the key that was taken, from 1; 0 if all are held.
local KEYS, ARGV, call = KEYS, ARGV, redis.call
local taken, last = {}, 0
for set = 1, (#ARGV - 1) / 3 do
  local count, token, ttl = tonumber(ARGV[3 * set - 1]), ARGV[3 * set], ARGV[3 * set + 1]
  taken[set] = 0
  for k = 1, count do
    if call('SET', KEYS[last + k], token, 'NX', 'PX', ttl) then
      taken[set] = k
      break
    end
  end
  last = last + count
end
return taken

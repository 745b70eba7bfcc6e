-- KEYS: the keys of all sets, one set after another.
-- ARGV: "1" and then the token of each set, if every set has one key. Otherwise an empty string and
-- then two values for each set: how many keys it has, and its token.
-- Deletes each key that still holds its set's token and touches no other.
-- Reply: the number of keys deleted.
local KEYS, ARGV = KEYS, ARGV -- locals are read faster
local compact = ARGV[1] ~= ''
local values = redis.call('MGET', unpack(KEYS))
local last, mine = 0, {}
for set = 1, compact and #KEYS or (#ARGV - 1) / 2 do
  local count, token = 1, ARGV[set + 1]
  if not compact then count, token = tonumber(ARGV[2 * set]), ARGV[2 * set + 1] end
  local first = last + 1
  last = last + count
  for k = first, last do
    if values[k] == token then mine[#mine + 1] = KEYS[k] end
  end
end
if #mine == 0 then return 0 end
return redis.call('DEL', unpack(mine))

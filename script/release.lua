-- KEYS: the keys of all sets, one set after another.
-- ARGV: "1" and then the token of each set, if every set has one key. Otherwise an empty string and
-- then two values for each set: how many keys it has, and its token.
-- Deletes each key that still holds its set's token and touches no other.
-- Reply: the number of sets if all keys did. Otherwise a list: the number of sets of which all keys
-- did, and then two numbers for each other set: its index, from 1, and 0.
local KEYS, ARGV = KEYS, ARGV -- locals are read faster
local compact = ARGV[1] ~= ''
local values = redis.call('MGET', unpack(KEYS))
local last, mine, sets, gone = 0, {}, 0, nil
for set = 1, compact and #KEYS or (#ARGV - 1) / 2 do
  local count, token = 1, ARGV[set + 1]
  if not compact then count, token = tonumber(ARGV[2 * set]), ARGV[2 * set + 1] end
  local first, before = last + 1, #mine
  last = last + count
  for k = first, last do
    if values[k] == token then mine[#mine + 1] = KEYS[k] end
  end
  sets = sets + 1
  if #mine - before < count then
    gone = gone or { 0 }
    gone[#gone + 1] = set
    gone[#gone + 1] = 0
  end
end
if #mine > 0 then redis.call('DEL', unpack(mine)) end
if not gone then return sets end
gone[1] = sets - (#gone - 1) / 2
return gone

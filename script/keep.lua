-- KEYS: the keys of one set, or of a part of it. ARGV: an empty string, how many keys they are, the
-- value that they hold, a TTL in milliseconds, the token and the mark of values that are kept, and
-- maybe what an Adopt took, which does not matter.
-- Each key that holds the value gets the token, the mark and the node's character, which is the
-- last one of the value. It lasts for the TTL from now, or longer if it did so before.
-- Without a TTL each key is deleted that holds the value, or the token and the mark with any
-- character.
-- Reply: 1 if all keys held the value, or what they were to get. Otherwise a list of 0, 1 and 0.
if redis.replicate_commands then redis.replicate_commands() end -- else 6.2 may not write after PTTL
local value, ttl, mark, call = ARGV[3], ARGV[4], ARGV[5], redis.call
local values, kept, reply = call('MGET', unpack(KEYS)), mark .. string.sub(ARGV[3], -1), 1
for k, key in ipairs(KEYS) do
  local held = values[k]
  if ttl == '' and held and (held == value or string.sub(held, 1, -2) == mark) then
    call('DEL', key)
  elseif held == value then
    call('SET', key, kept, 'PX', math.max(call('PTTL', key), ttl))
  end
  if held ~= value and (ttl == '' or held ~= kept) then reply = { 0, 1, 0 } end
end
return reply

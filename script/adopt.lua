-- KEYS: the keys of one set, or of a part of it.
-- ARGV: an empty string, how many keys they are, the new value, the TTL in milliseconds, the token
-- and the mark of values that are kept, and what to take: "marked" keys, with that token and mark;
-- "unmarked" keys too, which have the token alone; "free" keys too, which are missing. Whatever
-- node's character is behind the token or the mark counts. If every key is to be taken, all get the
-- new value. Each lasts for the TTL from now, or longer if it did so before. Otherwise nothing is
-- changed.
-- Reply: 1 if the keys were taken. Otherwise a list of 0, 1 and the index of a key that holds
-- another value; 0 if none does, but one is missing.
if redis.replicate_commands then redis.replicate_commands() end -- else 6.2 may not write after PTTL
local value, ttl, kept, takes, call = ARGV[3], ARGV[4], ARGV[5], ARGV[6], redis.call
local values, missing = call('MGET', unpack(KEYS)), false
for k, key in ipairs(KEYS) do
  local held = values[k] and string.sub(values[k], 1, -2)
  if not held and call('EXISTS', key) == 0 then
    missing = true
  elseif held ~= kept and (takes == 'marked' or held ~= string.sub(kept, 1, -2)) then
    return { 0, 1, k }
  end
end
if missing and takes ~= 'free' then return { 0, 1, 0 } end
for _, key in ipairs(KEYS) do
  call('SET', key, value, 'PX', math.max(call('PTTL', key), ttl))
end
return 1

-- KEYS: the marker of the restart guard.
-- ARGV: what it was when the server was looked at, empty where it was not there; and what it is to be.
-- Writes the marker, without an end, where it is still that, or is already what it is to be.
-- Reply: 1 if it was written, else 0.
local now = redis.call('GET', KEYS[1]) or ''
if now ~= ARGV[1] and now ~= ARGV[2] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1

-- KEYS: the fence keys of the keys of all sets, one set after another.
-- ARGV: as in release.lua, with the last number that a set reserves in place of its token.
-- Sets each fence key to that number, for a day, if it is lower or missing: a node that forgot the
-- number, or never had it, must not grant a lower fence when the lease is over. A fence key that is
-- no number is left alone, as is NaN, which is below nothing.
-- Reply: how many fence keys were raised.
local KEYS, ARGV, call = KEYS, ARGV, redis.call -- locals are read faster
local compact = ARGV[1] ~= ''
local raised, last = 0, 0
for set = 1, compact and #KEYS or (#ARGV - 1) / 2 do
  local count, reserved = 1, ARGV[set + 1]
  if not compact then count, reserved = tonumber(ARGV[2 * set]), ARGV[2 * set + 1] end
  local first = last + 1
  last = last + count
  for k = first, last do
    -- One by one: a fence key may be there twice. MGET reads a key of another type as missing.
    local number = tonumber(call('MGET', KEYS[k])[1] or 0)
    if number and number < tonumber(reserved) then
      call('SET', KEYS[k], reserved, 'PX', '86400000')
      raised = raised + 1
    end
  end
end
return raised

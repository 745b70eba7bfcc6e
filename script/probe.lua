-- KEYS: a key that is not there. Runs each command that locks need, and changes nothing.
-- Reply: the name of each command that failed, and its error behind a space.
local key, failed = KEYS[1], {}
local commands = { -- SET is first: it fails as an acquire would
  { 'SET', key, '', 'XX', 'PX', '1' }, { 'MGET', key }, { 'EXISTS', key }, { 'PEXPIRE', key, '1' },
  { 'DEL', key }, { 'GETRANGE', key, '0', '0' }, { 'PING' }, { 'PTTL', key },
}
for _, command in ipairs(commands) do
  local reply = redis.pcall(unpack(command))
  if type(reply) == 'table' and reply.err then
    failed[#failed + 1] = command[1] .. ' ' .. reply.err
  end
end
return failed

-- KEYS: the marker of the restart guard, and the key of the generations. ARGV: the marker that the
-- client has read, empty if there was none; the new marker; after how many milliseconds it ends,
-- empty for never; and the new generations, empty to leave them. Writes both if the marker is still
-- the one that was read. If it is the new one already, another client wrote both. Reply: 1 if the
-- marker is the new one, otherwise 0.
local now = redis.call('GET', KEYS[1]) or ''
if now ~= ARGV[1] then
  if now == ARGV[2] then return 1 end
  return 0
end
if ARGV[3] == '' then
  redis.call('SET', KEYS[1], ARGV[2])
else
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
end
if ARGV[4] ~= '' then redis.call('SET', KEYS[2], ARGV[4]) end
return 1

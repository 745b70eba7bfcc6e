-- KEYS: the restart guard's key. ARGV: the text that the client has seen there, empty for no key;
-- the new text; PX and for how many milliseconds it lasts, KEEPTTL and an empty string for as long
-- as before, or two empty strings for ever; and how many milliseconds the key may have left at most,
-- empty if that does not matter. Writes the new text if the key still has the text that was seen,
-- and ends soon enough. Reply: 1 if it was written, otherwise 0.
if redis.replicate_commands then redis.replicate_commands() end -- else 6.2 may not write after PTTL
local left, key = redis.call('PTTL', KEYS[1]), KEYS[1]
if (redis.call('GET', key) or '') ~= ARGV[1] then return 0 end
if ARGV[5] ~= '' and (left < 0 or left > tonumber(ARGV[5])) then return 0 end
if ARGV[3] == '' then
  redis.call('SET', key, ARGV[2])
elseif ARGV[3] == 'KEEPTTL' then
  redis.call('SET', key, ARGV[2], 'KEEPTTL')
else
  redis.call('SET', key, ARGV[2], 'PX', ARGV[4])
end
return 1

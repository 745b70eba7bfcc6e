-- KEYS and ARGV: as in acquire.lua.
-- If every key of a set holds its token, the set is extended and granted: each key lasts for the
-- TTL from now, or longer if it did so before. It never ends sooner than before, because a shorter
-- extension may come late, behind a longer one.
-- If some keys are missing and no other token holds any, the missing ones are set again (SET NX PX)
-- and the rest extended, but the set is not granted: another may have held it in between. If
-- another token holds a key, the script changes nothing of the set. The refills come last and may
-- fail, as they do when memory is full. So the other sets of the call do not suffer.
-- Reply: as in acquire.lua; the index of the key is 0 for a set that was refilled.
local KEYS, ARGV, call = KEYS, ARGV, redis.call -- locals are read faster
local compact = ARGV[1] ~= ''
local options = redis.REDIS_VERSION_NUM -- PEXPIRE has options; nil before Redis 7.0
-- Otherwise Redis 6.2 may be set up to write nothing behind a PTTL.
if not options and redis.replicate_commands then redis.replicate_commands() end
local values = call('MGET', unpack(KEYS))
local granted, last, refused, refills = 0, 0, nil, {}
for set = 1, compact and #KEYS or (#ARGV - 1) / 3 do
  local count, token, ttl = 1, ARGV[set + 1], ARGV[1]
  if not compact then
    count, token, ttl = tonumber(ARGV[3 * set - 1]), ARGV[3 * set], ARGV[3 * set + 1]
  end
  local first = last + 1
  last = last + count
  local missing, foreign = false, 0
  for k = first, last do
    if values[k] ~= token then
      -- A key of another type reads as missing in MGET.
      if values[k] or call('EXISTS', KEYS[k]) == 1 then
        foreign = k - first + 1
        break
      end
      missing = true
    end
  end
  if foreign == 0 then
    for k = first, last do
      if not values[k] then
        refills[#refills + 1] = { KEYS[k], token, ttl }
      elseif not options then
        -- Always a write: a server that refuses writes must not grant.
        call('PEXPIRE', KEYS[k], math.max(call('PTTL', KEYS[k]), ttl))
      elseif call('PEXPIRE', KEYS[k], ttl, 'GT') == 0 then
        call('PEXPIRE', KEYS[k], ttl, 'NX') -- GT takes no end for the latest one
      end
    end
  end
  if foreign == 0 and not missing then
    granted = granted + 1
  else
    refused = refused or { 0 }
    refused[#refused + 1] = set
    refused[#refused + 1] = foreign
  end
end
for _, r in ipairs(refills) do redis.pcall('SET', r[1], r[2], 'NX', 'PX', r[3]) end
if not refused then return granted end
refused[1] = granted
return refused

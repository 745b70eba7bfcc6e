-- KEYS: the sorted set of a node's fences. ARGV: members of it.
-- Reply: a list with the score of each member, 0 for one that is not there.
local scores = {}
for i, member in ipairs(ARGV) do
  scores[i] = tonumber(redis.call('ZSCORE', KEYS[1], member) or 0)
end
return scores

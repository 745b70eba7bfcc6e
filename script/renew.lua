-- KEYS: the marker of the restart guard, and the key of the generations: ID=NUMBER of this node,
-- and after it those of others, with a space between two. A node without an ID has -. ARGV: the
-- run_id; ID and NUMBER that the caller knows of this node, empty and 0 if none; an ID for a
-- durable node that has none, empty if the node is not durable; a marker of a loss, and after how
-- many milliseconds it ends; and then ID and NUMBER of each other node that the caller knows. If
-- the marker is not the run_id, the script does nothing. If the node's number is below the one that
-- the caller knows, the node has forgotten something: the marker says so, and the node has no ID
-- any more. If it is the one that the caller knows, it rises by one. Each other node keeps its
-- highest number. If there are more than 192, those that the caller does not know are dropped,
-- oldest first. Reply: 1; or 0 if the marker is another one; or -1 if the node has forgotten
-- something.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local before = redis.call('GET', KEYS[2]) or ''
local ids, number = {}, {}
for id, n in string.gmatch(before, '([%w-]+)=(%d+)') do
  if #n <= 13 and not number[id] then -- a double holds it, and it is printed as it is
    ids[#ids + 1], number[id] = id, tonumber(n)
  end
end
local own = ids[1] or '-'
if ARGV[4] ~= '' then
  if own == '-' then
    own = ARGV[4]
    number[own] = 1
  elseif own == ARGV[2] then
    local known = tonumber(ARGV[3])
    if number[own] < known then -- a server that refuses writes has forgotten no less
      redis.pcall('SET', KEYS[1], ARGV[5], 'PX', ARGV[6])
      redis.pcall('SET', KEYS[2], '-=0')
      return -1
    end
    if number[own] == known then number[own] = known + 1 end
  end
end
ids[1], number[own] = own, number[own] or 0
local named = {}
for i = 7, #ARGV, 2 do
  local id, n = ARGV[i], tonumber(ARGV[i + 1])
  named[id] = true
  if not number[id] then ids[#ids + 1] = id end
  if id ~= own then number[id] = math.max(number[id] or 0, n) end
end
for i = 2, #ids do
  if #ids <= 192 then break end
  while ids[i] and not named[ids[i]] and #ids > 192 do table.remove(ids, i) end
end
local text = {}
for i, id in ipairs(ids) do text[i] = id .. '=' .. string.format('%.0f', number[id]) end
text = table.concat(text, ' ')
if text ~= before then redis.call('SET', KEYS[2], text) end
return 1

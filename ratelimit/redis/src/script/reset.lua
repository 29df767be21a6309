-- KEYS  buckets to forget, whatever is kept there.
-- Gives how many there were.
local gone = 0
for first = 1, #KEYS, 1000 do
  gone = gone + redis.call('DEL', unpack(KEYS, first, math.min(first + 999, #KEYS)))
end
return gone

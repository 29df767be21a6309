-- One token bucket, and nothing else: KEYS[1] its key, ARGV[1] and ARGV[2] the microseconds of a unit and of the bucket.
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local full = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now) + ARGV[1]
if full - now > tonumber(ARGV[2]) then return 0 end
redis.call('SET', KEYS[1], string.format('%.0f', full), 'PX', '2000')
return 1

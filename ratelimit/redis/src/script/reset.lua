-- KEYS[1]  the bucket to forget, whatever is kept there
-- Gives how many there were.
return redis.call('DEL', KEYS[1])

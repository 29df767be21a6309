-- KEYS[1]  where the secret is kept
-- ARGV[1]  the secret to keep if there is none
-- Gives the one that is kept.
return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'GET') or ARGV[1]

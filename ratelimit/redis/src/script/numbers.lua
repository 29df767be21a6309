-- Decides about many requests, each under all of its limits, all or nothing, and charges them.
--
-- KEYS     the buckets, each once: first those kept as strings, then logs, which are lists. All lie in one slot.
-- ARGV[1]  numbers as little-endian doubles. All are integers below 2^53, and so are all sums and products made of
--          them here, since beyond that doubles leave integers out:
--            N[1]  how many keys are strings
--            N[2]  the earliest time that the server's clock can tell, as far as the caller knows
--            N[3]  how many requests there are
--            N[4]  where the first one begins; before that are rows, each a limit's part in requests
--          A request is: the time from which on it is void, whether it passes whatever limits say, whether a quota
--          is open, how many buckets and parts it has; for each bucket its key and a row that reads it; for each
--          part its row and which of the buckets it is about. A row is:
--            +0 kind (0 arrival time, 1 interval, 2 window, 3 sliding counter, 4 log)
--            +1 act (0 asks, 1 charges, 2 reports, 3 charges if admitted, 4 refunds, 5 refunds if admitted, 6 undoes)
--            +2 say (0 decides, 1 quota, 2 observes)
--            +3 over (0 if denied, 1 if more than +4 was counted, 2 always, 3 always, and nothing is kept)
--            +5 cost  +6 counts denied costs  +7 can be overrun  +8 how long use may be above the soft limit, or -1
--            +9 the units that it asks for: at least one
--          and from +10 on what its kind needs, see below.
--
-- The reply is the server's time, a letter for each request, and the states that its buckets had before:
--   A admitted, D denied: one text for each bucket follows
--   L nobody waits for it any more, W the caller's windows are not the present ones
--   F something else is kept under a key: its number in KEYS follows
--
-- Times are microseconds since the Unix epoch; where less counts, ticks follow, of which a microsecond has 128,000.
-- Nothing is written before all has been read and checked, so a request that can't be judged spoils only itself.

local call = redis.call
local unpack, floor, fmod, min, max = unpack, math.floor, math.fmod, math.min, math.max
local packed, unpacked, format = struct.pack, struct.unpack, string.format

local BEYOND = 9007199254740992
local TICKS = 128000

-- Read once, so that all requests of a call are judged at one time.
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]

-- In pieces: a function can't return 8,000 values.
local N = {}
do
  local blob, most = ARGV[1], 4000
  local count = #blob / 8
  for first = 1, count, most do
    local size = min(most, count - first + 1)
    local piece = { unpacked('<' .. string.rep('d', size), blob, first * 8 - 7) }
    if count <= most then
      N = piece
    else
      for i = 1, size do N[first + i - 1] = piece[i] end
    end
  end
end

-- What is wrong with the request that is judged: the number of a key that holds something else.
local foreign

-- The quotient of integers, rounded down, and the rest: dividing alone rounds up where the quotient is large.
local function divide(a, b)
  local rest = fmod(a, b)
  return (a - rest) / b, rest
end

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
-- The reply is the server's time, a letter for each request, and a text. For each request that has:
--   A admitted, D denied: the state that each of its buckets had before
--   L nobody waits for it any more, W the caller's windows are not the present ones: nothing
--   F something else is kept under a key: its number in KEYS
-- In front of each is its length and a colon.
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

-- What each key has, for those that are strings; false if that is none. Whoever changes it notes in `ends` until when it
-- matters.
local values, ends = {}, {}
for first = 1, N[1], 1000 do
  local last = min(first + 999, N[1])
  local some = call('MGET', unpack(KEYS, first, last))
  if first == 1 then
    values = some
  else
    for i = first, last do values[i] = some[i - first + 1] end
  end
end

-- Buckets that the slow path has read, by their keys' numbers.
local buckets = {}

-- Whether a key that has no string has nothing else either. All such keys are asked about together.
local is_absent
do
  local all
  function is_absent(key)
    if all == nil then
      all = true
      local keys = {}
      for i = 1, N[1] do
        if not values[i] then keys[#keys + 1] = KEYS[i] end
        if #keys == 1000 or (i == N[1] and #keys > 0) then
          all = all and call('EXISTS', unpack(keys)) == 0
          keys = {}
        end
      end
    end
    return all or call('EXISTS', KEYS[key]) == 0
  end
end

-- For each request its letter; and the texts of all, each behind its length.
local letters, texts, written = {}, {}, 0

local LENGTHS = { [0] = '0:' }

local function put(text)
  local size = #text
  local length = LENGTHS[size]
  if not length then
    length = size .. ':'
    LENGTHS[size] = length
  end
  texts[written + 1], texts[written + 2] = length, text
  written = written + 2
end

-- Milliseconds until then, and a second for a clock that is corrected. As a text: a number takes longer to read.
local lifetime
do
  local known, text
  function lifetime(ending)
    -- So that no write can fail for it, whatever was kept.
    local time = min(floor((ending - now) / 1000) + 1001, BEYOND)
    if time ~= known then
      known, text = time, format('%.0f', time)
    end
    return text
  end
end

-- The quotient of integers, rounded down, and the rest: dividing alone rounds up where the quotient is large.
local function divide(a, b)
  local rest = fmod(a, b)
  return (a - rest) / b, rest
end

-- Where the present window begins and ends; nothing if it is neither of the caller's.
-- The row is one of windows.
local function present(r)
  local start, ending, next_end = N[r + 10], N[r + 11], N[r + 12]
  if start < 0 then
    start = now - fmod(now, N[r + 13])
    return start, start + N[r + 13]
  end
  if now < start or now >= next_end then return nil end
  if now < ending then return start, ending end
  return ending, next_end
end


-- Logs: lists of times, oldest first, behind a header that says how many units are owed and since when use has been
-- above the soft limit. What has left the window is cut off when the list is written.
--   +10  the window's length                     +14  the most units in a window
--   +17  all that can be used, debts included    +18  the soft limit
--   +19  of undoing: when it was charged
--   +20  which entries the caller needs, see `report`: how many numbers follow, then these
--
-- In memory a log is entries of the list, without `head` of the oldest and `tail` of the newest, and then `added`
-- times `at`; or instead of the list a table of all of its times.
-- While units are owed, the window is full. As its oldest entry leaves, one unit that is owed enters at that time.

local function new_log()
  local log = {}

  local HEADER = '>BI7I7'

  -- The most entries that any limit keeps.
  local MOST = 10000

  local function time_of(b, text)
    local time = tonumber(text)
    if time and time >= 0 and time < BEYOND and time == floor(time) then return time end
    foreign, b.is_foreign = b.key, true
    return now
  end

  function log.parse(b)
    local length = redis.pcall('LLEN', KEYS[b.key])
    if type(length) ~= 'number' or length > MOST + 1 then return false end
    b.length, b.elements = max(length - 1, 0), length
    if length == 0 then return true end
    b.header = call('LINDEX', KEYS[b.key], '0')
    if #b.header ~= 15 then return false end
    local tag
    tag, b.owed, b.since = unpacked(HEADER, b.header)
    return tag == 5 and b.owed < BEYOND and b.since < BEYOND
  end

  -- One of the list, counted from the oldest.
  local function listed(b, index)
    if b.all then return b.all[index + 1] end
    local time = b.known[index]
    if not time then
      time = time_of(b, call('LINDEX', KEYS[b.key], format('%.0f', index + 1)))
      b.known[index] = time
    end
    return time
  end

  local function count(b) return b.length - b.head - b.tail + b.added end

  local function entry(b, index)
    if index < b.length - b.head - b.tail then return listed(b, b.head + index) end
    return b.at
  end

  -- Makes a table of it.
  local function load(b)
    local times, size = {}, b.length - b.head - b.tail
    if b.all then
      for i = 1, size do times[i] = b.all[b.head + i] end
    elseif size > 0 then
      local first = format('%.0f', b.head + 1)
      for i, text in ipairs(call('LRANGE', KEYS[b.key], first, format('%.0f', b.head + size))) do
        times[i] = time_of(b, text)
      end
    end
    for i = 1, b.added do times[size + i] = b.at end
    b.all, b.length, b.head, b.tail, b.added = times, #times, 0, 0, 0
  end

  -- How many of the list have left the window; they are the first ones.
  local function expired(b, window)
    local low, high = 0, b.length
    if high == 0 or listed(b, 0) + window > now then return 0 end
    while low < high do
      local middle = floor((low + high) / 2)
      if listed(b, middle) + window <= now then low = middle + 1 else high = middle end
    end
    return low
  end

  -- When the unit leaves that is at `index`, counted from the oldest entry through those that are owed.
  local function leaves(times, window, index)
    local turns, place = divide(index, max(#times, 1))
    local by_itself = (times[place + 1] or 0) + (turns + 1) * window
    -- After a clock that stepped back the newest may lie further ahead, and none comes before the one before it.
    if turns == 0 then return by_itself end
    return max(by_itself, (times[#times] or 0) + turns * window)
  end

  local function paid(b, window)
    local low, high = 0, b.owed
    while low < high do
      local middle = floor((low + high) / 2)
      if leaves(b.all, window, middle) <= now then low = middle + 1 else high = middle end
    end
    return low
  end

  -- Lets units that are owed enter the window, as far as others have left it. There may be too many entries or too few,
  -- and more that is owed than can be, after a limit that was another one.
  local function settle(b, r)
    local window, capacity = N[r + 10], N[r + 14]
    load(b)
    local times = b.all
    while #times > capacity do
      times[#times] = nil
      b.owed = b.owed + 1
    end
    b.owed = min(b.owed, N[r + 17] - capacity)
    local newest = max(now, times[#times] or 0)
    for _ = 1, min(capacity - #times, b.owed) do
      times[#times + 1] = newest
      b.owed = b.owed - 1
    end
    local entered = paid(b, window)
    local turns, rest = divide(entered, max(#times, 1))
    if turns > 0 then
      local earliest = times[#times] + (turns - 1) * window
      for i = 1, #times do times[i] = max(times[i] + turns * window, earliest) end
    end
    local moved = {}
    for i = rest + 1, #times do moved[i - rest] = times[i] end
    for i = 1, rest do moved[#moved + 1] = max(times[i] + window, moved[#moved] or times[#times]) end
    b.all, b.length, b.owed = moved, #moved, b.owed - entered
    b.is_rewritten = true
    log.touch(b, r)
  end

  function log.clamp(b, r)
    local window, most = N[r + 10], N[r + 17] - N[r + 14]
    if N[r + 7] == 0 then
      b.owed = 0
    elseif b.owed > 0 and (b.owed > most or count(b) ~= N[r + 14] or entry(b, 0) + window <= now) then
      settle(b, r)
    end
    if b.owed == 0 and b.added == 0 then b.head = max(b.head, expired(b, window)) end
  end

  function log.touch(b, r)
    local size = count(b)
    local newest = size > 0 and entry(b, size - 1) + N[r + 10] or 0
    b.changed, b.ends = true, newest + math.ceil(b.owed / max(size, 1)) * N[r + 10]
  end

  function log.used(b, r) return min(count(b), N[r + 14]) + b.owed end

  local function left(b, r)
    return b.owed > 0 and 0 or max(N[r + 14] - count(b), 0)
  end

  function log.ask(b, r)
    if N[r + 7] == 1 then return left(b, r) > 0 end
    return count(b) + N[r + 9] <= N[r + 14]
  end

  -- Adds as many entries at the present, or at the newest entry's time if the clock stepped back, and keeps the newest
  -- ones.
  local function append(b, r, units)
    local size, capacity = count(b), N[r + 14]
    units = min(units, capacity)
    if b.added == 0 then b.at = size > 0 and max(now, entry(b, size - 1)) or now end
    local gone = min(units, max(size + units - capacity, 0))
    local first = min(gone, b.length - b.head - b.tail)
    b.head, b.added = b.head + first, b.added + units - (gone - first)
  end

  function log.take(b, r, cost)
    local allowed = log.ask(b, r)
    if N[r + 7] == 1 then
      local taken = min(left(b, r), cost)
      append(b, r, taken)
      b.owed = min(b.owed + cost - taken, N[r + 17] - N[r + 14])
    else
      allowed = count(b) + max(cost, 1) <= N[r + 14]
      if allowed or N[r + 6] == 1 then append(b, r, cost) else cost = 0 end
    end
    if cost > 0 then log.touch(b, r) end
    return allowed
  end

  -- Pays what is owed, and says how many units are left.
  local function pay(b, units)
    local owed = min(b.owed, units)
    b.owed = b.owed - owed
    return units - owed
  end

  function log.refund(b, r)
    local units = min(pay(b, N[r + 5]), count(b))
    local of_added = min(units, b.added)
    b.added, b.tail = b.added - of_added, b.tail + units - of_added
    log.touch(b, r)
  end

  function log.undo(b, r)
    local units, charged = pay(b, N[r + 5]), N[r + 19]
    load(b)
    local kept = {}
    for _, time in ipairs(b.all) do
      if units > 0 and time == charged then
        units = units - 1
      else
        kept[#kept + 1] = time
      end
    end
    b.all, b.length, b.is_rewritten = kept, #kept, true
    log.touch(b, r)
  end

  with_charges(log)

  -- What the caller needs to work out every number of its answer: how many units there are, and the entries that free
  -- room. For each number in the row that is the entry which has to leave before as many units fit; if it is negative,
  -- the entry that is the newest without so many. All entries if the row says how many with -1.
  function log.tell(b, r)
    local size, capacity = count(b), N[r + 14]
    if size == 0 and b.owed == 0 then return '' end
    local out, told = { packed('>BI7I7I7', 5, size, b.owed, b.since) }, {}
    local function tell(index)
      if index >= 0 and index < size and not told[index] then
        told[index] = true
        out[#out + 1] = packed('>I2I7', index, entry(b, index))
      end
    end
    local wanted = N[r + 20]
    if wanted < 0 then
      load(b)
      for i = 0, size - 1 do tell(i) end
      return table.concat(out)
    end
    tell(0)
    tell(size - 1)
    for i = r + 21, r + 20 + wanted do
      local units = N[i]
      if units < 0 then
        tell(size - 1 + units)
      else
        local index = size + b.owed + units - capacity - 1
        tell(N[r + 7] == 1 and index >= 0 and fmod(index, capacity) or index)
      end
    end
    return table.concat(out)
  end

  local function push(key, times)
    for first = 1, #times, 1000 do
      call('RPUSH', key, unpack(times, first, min(first + 999, #times)))
    end
  end

  function log.write(b)
    local key, header = KEYS[b.key], packed(HEADER, 5, b.owed, b.since)
    if b.ends <= now then return call('DEL', key) end
    local times, size = {}, b.length - b.head - b.tail
    if b.all or b.elements == 0 then
      times[1] = header
      for i = 1, size do times[i + 1] = format('%.0f', b.all[b.head + i]) end
    else
      -- One more is left in front, which the header replaces.
      if b.head > 0 or b.tail > 0 then
        call('LTRIM', key, format('%.0f', b.head), format('%.0f', -1 - b.tail))
      end
      if b.head > 0 or header ~= b.header then call('LSET', key, '0', header) end
    end
    local added = format('%.0f', b.at)
    for _ = 1, b.added do times[#times + 1] = added end
    push(key, times)
    -- Not before: a node that is giving the slot away does not make a key anew that is gone.
    if b.all and b.elements > 0 then call('LTRIM', key, format('%.0f', b.elements), '-1') end
    call('PEXPIRE', key, lifetime(b.ends))
  end

  return log
end

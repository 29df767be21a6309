-- Buckets that refill evenly, by the time at which one is full again. What is used is a time, so are costs:
--   +10 +11  the time of what is asked for      +12 +13  the time of the cost
--   +14 +15  the time of the whole bucket       +16 +17  the time of all that can be used, debts included
--   +18      whether the cost is not above what the bucket holds
--   +19 +20  use up to this is below the soft limit, beyond +21 +22 the cost goes above it
--   +23 +24 +25 +26  of reports: the time of a unit, and 1/2^64 ticks in two halves
--   +27      of undoing: when it was charged

local function new_arrival()
  local arrival = {}

  local function is_within(us, ticks, most_us, most_ticks)
    return us < most_us or (us == most_us and ticks <= most_ticks)
  end

  local function sum(us, ticks, more_us, more_ticks)
    us, ticks = us + more_us, ticks + more_ticks
    if ticks >= TICKS then return us + 1, ticks - TICKS end
    return us, ticks
  end

  -- The difference, or nothing if the other is larger.
  local function difference(us, ticks, less_us, less_ticks)
    if is_within(us, ticks, less_us, less_ticks) then return 0, 0 end
    us, ticks = us - less_us, ticks - less_ticks
    if ticks < 0 then return us - 1, ticks + TICKS end
    return us, ticks
  end

  local function used(b)
    local us = b.x - now
    if us < 0 then return 0, 0 end
    return us, b.y
  end

  local function use(b, us, ticks)
    b.x, b.y = now + us, ticks
    changed(b, (us > 0 or ticks > 0) and b.x + 1 or 0)
  end

  function arrival.clamp(b, r)
    local us, ticks = used(b)
    if not is_within(us, ticks, N[r + 16], N[r + 17]) then use(b, N[r + 16], N[r + 17]) end
  end

  function arrival.touch(b)
    use(b, used(b))
  end

  function arrival.ask(b, r)
    local us, ticks = used(b)
    us, ticks = sum(us, ticks, N[r + 10], N[r + 11])
    return N[r + 18] == 1 and is_within(us, ticks, N[r + 14], N[r + 15])
  end

  local function overrun(b, r, us, ticks)
    local sum_us, sum_ticks = sum(us, ticks, N[r + 12], N[r + 13])
    if not is_within(sum_us, sum_ticks, N[r + 16], N[r + 17]) then sum_us, sum_ticks = N[r + 16], N[r + 17] end
    if is_within(us, ticks, sum_us, sum_ticks) then use(b, sum_us, sum_ticks) end
  end

  function arrival.charge(b, r)
    local us, ticks = used(b)
    local allowed = arrival.ask(b, r)
    if N[r + 5] == 0 then return allowed end
    if N[r + 7] == 1 then
      overrun(b, r, us, ticks)
    elseif allowed then
      use(b, sum(us, ticks, N[r + 12], N[r + 13]))
    elseif N[r + 6] == 1 and not is_within(N[r + 14], N[r + 15], us, ticks) then
      use(b, N[r + 14], N[r + 15])
    end
    return allowed
  end

  -- The time of as many units, at most `most`, as fit into a room. Fractions of a unit's time add up, so they are
  -- doubled and added with it, in four digits.
  local function time_in(r, room_us, room_ticks, most)
    local half = 4294967296
    local powers, power = { { N[r + 23], N[r + 24], N[r + 25], N[r + 26] } }, 1
    local function add(a, b)
      local low = a[4] + b[4]
      local high = a[3] + b[3] + (low >= half and 1 or 0)
      local us, ticks = sum(a[1], a[2], b[1], b[2])
      if high >= half then us, ticks = sum(us, ticks, 0, 1) end
      return { us, ticks, high % half, low % half }
    end
    while power * 2 <= most and powers[#powers][1] <= room_us do
      powers[#powers + 1] = add(powers[#powers], powers[#powers])
      power = power * 2
    end
    local time, count = { 0, 0, 0, 0 }, 0
    for i = #powers, 1, -1 do
      local more = add(time, powers[i])
      if count + power <= most and is_within(more[1], more[2], room_us, room_ticks) then
        time, count = more, count + power
      end
      power = power / 2
    end
    return time[1], time[2]
  end

  function arrival.report(b, r)
    if N[r + 6] == 1 or N[r + 7] == 1 then return arrival.charge(b, r) end
    local us, ticks = used(b)
    if N[r + 5] == 0 or not is_within(us, ticks, N[r + 14], N[r + 15]) then return end
    local room_us, room_ticks = difference(N[r + 14], N[r + 15], us, ticks)
    local more_us, more_ticks = time_in(r, room_us, room_ticks, N[r + 5])
    if more_us > 0 or more_ticks > 0 then use(b, sum(us, ticks, more_us, more_ticks)) end
  end

  function arrival.refund(b, r)
    local us, ticks = used(b)
    if N[r + 5] > 0 then use(b, difference(us, ticks, N[r + 12], N[r + 13])) end
  end

  -- What the charge took comes back by itself from then on; what may have come back that way is not given back again.
  function arrival.undo(b, r)
    local back_us, back_ticks = N[r + 12], N[r + 13]
    local since = now - N[r + 27]
    if since > 0 then back_us, back_ticks = difference(back_us, back_ticks, since, 0) end
    local us, ticks = used(b)
    if back_us > 0 or back_ticks > 0 then use(b, difference(us, ticks, back_us, back_ticks)) end
  end

  function arrival.is_below(b, r)
    local us, ticks = used(b)
    return is_within(us, ticks, N[r + 19], N[r + 20])
  end

  function arrival.is_above(b, r)
    local us, ticks = used(b)
    return not is_within(us, ticks, N[r + 21], N[r + 22])
  end

  return arrival
end

-- Sliding counters: the current window's count, and the previous one's by how much of it the sliding window still
-- covers, rounded down. Rows are those of windows.

local function new_sliding()
  local sliding = {}

  -- The product of count and part over the whole, rounded down; the part is not more than the whole, and both are below
  -- 2^45.
  local function share(count, part, whole)
    if part == whole then return count end
    if count * part < BEYOND then return (divide(count * part, whole)) end
    -- By long division, seven bits of the count at a time.
    local quotient, rest, unit = 0, 0, 128 ^ 7
    while unit >= 1 do
      local digit = floor(count / unit) % 128
      local q, left = divide(rest * 128 + digit * part, whole)
      quotient, rest, unit = quotient * 128 + q, left, unit / 128
    end
    return quotient
  end

  -- The end of the window that counts now, the counts of the previous one and its own, and what is left of it. If the
  -- limit can be overrun, a window passes on to the next what it has counted above the limit.
  local function counts(b, r)
    local start, ending = present(r)
    if b.x > ending then return b.x, b.z, b.y, N[r + 13] end
    if b.x == ending then return ending, b.z, b.y, ending - now end
    if N[r + 7] == 1 then
      local before = max(b.y - (divide(ending - b.x, N[r + 13]) - 1) * N[r + 14], 0)
      local previous = min(before, N[r + 14])
      return ending, previous, before - previous, ending - now
    end
    return ending, b.x == start and b.y or 0, 0, ending - now
  end

  -- A count matters as the previous one's too, and what is owed in as many windows as pay it.
  local function set(b, r, ending, previous, current)
    b.x, b.y, b.z = ending, current, previous
    local windows = N[r + 7] == 1 and divide(max(current - 1, 0), N[r + 15]) + 1 or 1
    changed(b, ending + windows * N[r + 13])
  end

  function sliding.clamp(b, r)
    if N[r + 7] == 1 and b.y > N[r + 17] then set(b, r, b.x, b.z, N[r + 17]) end
  end

  function sliding.touch(b, r) set(b, r, b.x, b.z, b.y) end

  function sliding.used(b, r)
    local _, previous, current, left = counts(b, r)
    return current + share(previous, left, N[r + 13])
  end

  function sliding.ask(b, r)
    return sliding.used(b, r) + N[r + 9] <= N[r + 14]
  end

  function sliding.take(b, r, cost)
    local ending, previous, current, left = counts(b, r)
    local needs = N[r + 7] == 1 and 1 or max(cost, 1)
    local allowed = current + share(previous, left, N[r + 13]) + needs <= N[r + 14]
    if cost > 0 and N[r + 7] == 1 then
      set(b, r, ending, previous, max(min(current + cost, N[r + 17]), current))
    elseif cost > 0 and (allowed or N[r + 6] == 1) then
      set(b, r, ending, previous, min(current + cost, N[r + 16]))
    end
    return allowed
  end

  function sliding.refund(b, r)
    local _, ending = present(r)
    if N[r + 7] == 1 then
      local counting, previous, current = counts(b, r)
      if counting == ending and current > 0 then
        set(b, r, ending, previous, max(current - N[r + 5], 0))
      end
    elseif b.x == ending then
      set(b, r, b.x, b.z, max(b.y - N[r + 5], 0))
    elseif b.x == ending + N[r + 13] then
      set(b, r, b.x, max(b.z - N[r + 5], 0), b.y)
    end
  end

  -- From the current or the previous window, whichever was charged; what was owed by then can't be told from what
  -- others took.
  function sliding.undo(b, r)
    if b.x == N[r + 11] then
      set(b, r, b.x, b.z, max(b.y - N[r + 5], 0))
    elseif N[r + 7] == 0 and b.x == N[r + 11] + N[r + 13] then
      set(b, r, b.x, max(b.z - N[r + 5], 0), b.y)
    end
  end

  return with_charges(sliding)
end

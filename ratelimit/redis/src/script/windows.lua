-- Buckets that count in windows, which the caller names: the present one by its clock, and the next.
--   +10 +11 +12  where the window begins and ends, and where the next one ends; of undoing, those of the time of the
--                charge. Windows that are too short to be named in time begin at -1: they are aligned to the epoch.
--   +13  a window's length                       +14  the most units at once
--   +15  units in a window                       +16  how far a window counts
--   +17  all that can be used, debts included    +18  the soft limit
-- A state that lies ahead was written before the clock stepped back. It goes on counting there, so that nothing
-- extra passes.

-- How soft limits stand to units that are used.
local function with_soft_limit(kind)
  function kind.is_below(b, r) return kind.used(b, r) < N[r + 18] end
  function kind.is_above(b, r) return kind.used(b, r) + max(N[r + 5], 1) > N[r + 18] end
  return kind
end

-- Charges what is reported afterwards: all of it where a limit takes that anyway, else as much as there is room for.
local function report(kind, b, r)
  local cost = N[r + 5]
  if N[r + 6] == 0 and N[r + 7] == 0 then cost = min(cost, max(N[r + 14] - kind.used(b, r), 0)) end
  kind.take(b, r, cost)
end

local function with_charges(kind)
  function kind.charge(b, r) return kind.take(b, r, N[r + 5]) end
  function kind.report(b, r) report(kind, b, r) end
  return with_soft_limit(kind)
end

-- Fixed windows: a counter that starts at zero with each.
local function new_window()
  local window = {}

  local function counted(b, r)
    local _, ending = present(r)
    if b.x >= ending then return b.x, b.y end
    return ending, 0
  end

  function window.clamp() end

  function window.used(b, r)
    local _, count = counted(b, r)
    return count
  end

  function window.touch(b) changed(b, b.x) end

  function window.ask(b, r)
    local count = window.used(b, r)
    if count + N[r + 9] <= N[r + 14] then return true, count end
    -- What would be charged says whether it is over.
    local cost = N[r + 1] < 4 and N[r + 6] == 1 and N[r + 5] or 0
    return false, min(count + cost, max(count, N[r + 16]))
  end

  function window.take(b, r, cost)
    local ending, count = counted(b, r)
    local allowed = count + max(cost, 1) <= N[r + 14]
    if cost > 0 and (allowed or N[r + 6] == 1) then
      b.x, b.y = ending, min(count + cost, N[r + 16])
      changed(b, ending)
      count = b.y
    end
    return allowed, count
  end

  function window.refund(b, r)
    local _, ending = present(r)
    if b.x == ending then
      b.y = max(b.y - N[r + 5], 0)
      changed(b, ending)
    end
  end

  function window.undo(b, r)
    if b.x == N[r + 11] then
      b.y = max(b.y - N[r + 5], 0)
      changed(b, b.x)
    end
  end

  return with_charges(window)
end

-- Buckets that are refilled at the end of each interval, and fixed windows that can be overrun. All but the last refill
-- bring the whole amount.
local function new_interval()
  local interval = {}

  local function missing(b, r)
    local _, ending = present(r)
    if b.x == ending then return b.y end
    if b.x < ending then return 0 end
    return divide(b.x - ending, N[r + 13]) * N[r + 15] + b.y
  end

  local function miss(b, r, tokens)
    if tokens == 0 then
      b.x, b.y = 0, 0
      return changed(b, 0)
    end
    local _, ending = present(r)
    local refills, rest = divide(tokens - 1, N[r + 15])
    b.x, b.y = ending + refills * N[r + 13], rest + 1
    changed(b, b.x)
  end

  -- The last refill may be more than a smaller amount brings now; the bucket is full when it would have been.
  function interval.clamp(b, r)
    local amount = N[r + 15]
    if b.y > amount and missing(b, r) > 0 then
      b.y = amount
      changed(b, b.x)
    end
    if missing(b, r) > N[r + 17] then miss(b, r, N[r + 17]) end
  end

  function interval.used(b, r) return missing(b, r) end

  function interval.touch(b) changed(b, b.x) end

  function interval.ask(b, r)
    return missing(b, r) + N[r + 9] <= N[r + 14]
  end

  function interval.take(b, r, cost)
    local tokens, capacity = missing(b, r), N[r + 14]
    if N[r + 7] == 1 then
      if cost > 0 then miss(b, r, max(min(tokens + cost, N[r + 17]), tokens)) end
      return tokens < capacity
    end
    local allowed = tokens + max(cost, 1) <= capacity
    if allowed and cost > 0 then
      miss(b, r, tokens + cost)
    elseif not allowed and N[r + 6] == 1 and tokens < capacity then
      miss(b, r, capacity)
    end
    return allowed
  end

  function interval.refund(b, r)
    miss(b, r, max(missing(b, r) - N[r + 5], 0))
  end

  -- Only while no refill has come since: after one, it can't be told whether the bucket was full in between.
  function interval.undo(b, r)
    if now >= N[r + 10] and now < N[r + 11] then interval.refund(b, r) end
  end

  return with_charges(interval)
end

-- Requests of one limit that is charged for what it admits or for all, which most requests are, if that has no soft limit
-- and can't be overrun. Whatever else there is about them, or is kept under the key, is left to the slow path, which
-- comes to the same.

-- For a row a function that decides about a key: whether the limit is over, or nothing if the slow path has to say that.

-- See arrival.lua.
local function by_arrival(r)
  local cost_us, cost_ticks, full_us, full_ticks = N[r + 12], N[r + 13], N[r + 14], N[r + 15]
  local holds_cost = N[r + 18] == 1
  if N[r + 3] ~= 0 or N[r + 6] == 1 then return nil end
  return function(key)
    local value, us, ticks = values[key], 0, 0
    if value then
      if #value ~= 11 then return nil end
      local tag, x, y = unpacked('>BI7I3', value)
      if tag ~= 1 or x >= BEYOND or y >= TICKS then return nil end
      if x >= now then us, ticks = x - now, y end
      if us > full_us or (us == full_us and ticks > full_ticks) then return nil end
    elseif not is_absent(key) then
      return nil
    end
    put(value or '')
    us, ticks = us + cost_us, ticks + cost_ticks
    if ticks >= TICKS then us, ticks = us + 1, ticks - TICKS end
    if not holds_cost or us > full_us or (us == full_us and ticks > full_ticks) then return true end
    values[key] = packed('>BI7I3', 1, now + us, ticks)
    ends[key] = (us > 0 or ticks > 0) and now + us + 1 or 0
    return false
  end
end

-- See windows.lua.
local function by_window(r)
  local _, present_end = present(r)
  local cost, capacity, counts_up_to, counts_denied = N[r + 5], N[r + 14], N[r + 16], N[r + 6] == 1
  local by_count, most = N[r + 3] == 1, N[r + 4]
  -- Who decides by the count is charged in any case.
  if not present_end or N[r + 3] > 1 or (by_count and N[r + 1] ~= 1) then return nil end
  return function(key)
    local value, ending, count = values[key], present_end, 0
    if value then
      if #value ~= 15 then return nil end
      local tag, x, y = unpacked('>BI7I7', value)
      if tag ~= 3 or x >= BEYOND or y >= BEYOND then return nil end
      if x >= ending then ending, count = x, y end
    elseif not is_absent(key) then
      return nil
    end
    put(value or '')
    local allowed = count + cost <= capacity
    if allowed or counts_denied then
      count = min(count + cost, counts_up_to)
      values[key], ends[key] = packed('>BI7I7', 3, ending, count), ending
    end
    if by_count then return count > most end
    return not allowed
  end
end

local BY_KIND = { [0] = by_arrival, [2] = by_window }
local by_row = {}

local function new_decider(r)
  local by_kind, act = BY_KIND[N[r]], N[r + 1]
  local is_charged = (act == 1 or act == 3) and N[r + 5] > 0
  return is_charged and N[r + 7] == 0 and N[r + 8] < 0 and by_kind and by_kind(r) or false
end

-- The request's letter, or nothing.
local function fast_path(at)
  local key, r = N[at + 5], N[at + 6]
  if N[at + 3] ~= 1 or N[at + 4] ~= 1 or N[at + 7] ~= r or buckets[key] then return nil end
  local decider = by_row[r]
  if decider == nil then
    decider = new_decider(r)
    by_row[r] = decider
  end
  if not decider then return nil end
  if now >= N[at] or now < N[2] then return 'L' end
  local is_over = decider(key)
  if is_over then
    local say = N[r + 2]
    local passes = N[at + 1] == 1 or say == 2 or (say == 1 and N[at + 2] == 1)
    return passes and 'A' or 'D'
  end
  return is_over == false and 'A' or nil
end


-- One request after the other, each as the limiter decides about one in memory: what is done in any case first, then
-- what is charged if it passes, last what only observes; if a limit has no room any more then, all of it is taken back.

-- Each is made when it is first needed: to make all of them takes as long as to judge several requests.
local NEW = { [0] = new_arrival, new_interval, new_window, new_sliding, new_log }
local KINDS = setmetatable({}, {
  __index = function(kinds, kind)
    kinds[kind] = NEW[kind]()
    return kinds[kind]
  end,
})
local ASK, CHARGE, REPORT, CHARGE_IF, REFUND, REFUND_IF, UNDO = 0, 1, 2, 3, 4, 5, 6
local DECIDES, QUOTA, OBSERVES = 0, 1, 2
local BELOW, ABOVE, TOO_LONG = 0, 1, 2

-- A bucket that can be judged by a row, as it is under that limit; otherwise a letter that says why not.
local function prepare(key, r)
  local b = buckets[key] or bucket(key)
  local kind = N[r]
  if not b.is_read then
    b.is_read = true
    b.is_foreign = not (kind == 4 and KINDS[4].parse(b) or kind < 4 and parse(b, kind))
  end
  if b.is_foreign or b.kind ~= kind then
    foreign = key
    return nil, 'F'
  end
  if kind > 0 and kind < 4 and N[r + 1] ~= UNDO and not present(r) then return nil, 'W' end
  return b
end

-- The state as the caller is told it: what was read, before it is fitted to a limit whose numbers have changed.
local function tell(b, r)
  if b.kind < 4 then
    put(raw(b))
    if N[r + 1] ~= UNDO then KINDS[b.kind].clamp(b, r) end
  else
    KINDS[4].clamp(b, r)
    put(KINDS[4].tell(b, r))
  end
end

-- Judges requests of several limits, or of one in another way than most.
local function new_judge()
  -- The request's parts: their rows and buckets, and what came of them.
  local passes_all, has_open_quota, parts
  local rows, subjects, over, charged = {}, {}, {}, {}

  local function is_denied()
    if passes_all then return false end
    local quotas, all_over = false, true
    for i = 1, parts do
      local say = N[rows[i] + 2]
      if say == DECIDES then
        if over[i] then return true end
      elseif say == QUOTA then
        quotas = true
        if not over[i] then all_over = false end
      end
    end
    return quotas and all_over and not has_open_quota
  end

  -- Where the request stands towards the soft limit, before it is charged.
  local function standing(b, r, kind)
    local lasts = N[r + 8]
    if lasts < 0 then return BELOW end
    if b.since > 0 and kind.is_below(b, r) then
      b.since = 0
      kind.touch(b, r)
    end
    if not kind.is_above(b, r) then return BELOW end
    if b.since > 0 and now - b.since >= lasts then return TOO_LONG end
    return ABOVE
  end

  local function note(b, r, kind)
    if b.since == 0 then
      b.since = now
      kind.touch(b, r)
    end
  end

  local function is_over(r, allowed, counted)
    local how = N[r + 3]
    if how == 0 then return not allowed end
    if how == 1 then return counted > N[r + 4] end
    return true
  end

  local function ask(i)
    local r, b = rows[i], subjects[i]
    local kind = KINDS[N[r]]
    local allowed, counted = kind.ask(b, r)
    local is_too_long = N[r + 1] < REFUND and standing(b, r, kind) == TOO_LONG
    over[i], charged[i] = is_over(r, allowed, counted) or is_too_long, false
  end

  local function charge(i)
    local r, b = rows[i], subjects[i]
    local kind = KINDS[N[r]]
    local stands = standing(b, r, kind)
    if stands == TOO_LONG and N[r + 1] ~= CHARGE then return ask(i) end
    local is = is_over(r, kind.charge(b, r))
    if stands == ABOVE and not is then note(b, r, kind) end
    is = is or stands == TOO_LONG
    over[i], charged[i] = is, N[r + 1] == CHARGE or not is
  end

  local function report(i)
    local r, b = rows[i], subjects[i]
    local kind = KINDS[N[r]]
    local stands = standing(b, r, kind)
    kind.report(b, r)
    if stands ~= BELOW then note(b, r, kind) end
    over[i], charged[i] = false, true
  end

  local function refund(i)
    local r = rows[i]
    KINDS[N[r]].refund(subjects[i], r)
    ask(i)
  end

  -- Does what is done in any case, and asks the rest.
  local function first(i)
    local r = rows[i]
    local act = N[r + 1]
    if N[r + 3] == 3 then
      over[i], charged[i] = true, false
    elseif act == CHARGE then
      charge(i)
    elseif act == REPORT then
      report(i)
    elseif act == REFUND then
      refund(i)
    elseif act == UNDO then
      KINDS[N[r]].undo(subjects[i], r)
      over[i], charged[i] = false, false
    else
      ask(i)
      -- Whether it is over shows when it has been refunded.
      if act == REFUND_IF then over[i] = false end
    end
  end

  -- Charges what is charged if the request passes; false if it does not any more.
  local function charge_all()
    for observes = 0, 1 do
      for i = 1, parts do
        local r = rows[i]
        if N[r + 1] == CHARGE_IF and (N[r + 2] == OBSERVES) == (observes == 1) then
          charge(i)
          if not charged[i] and is_denied() then return false end
        end
      end
    end
    return true
  end

  -- Refunds what is refunded if the request passes; false if it does not, since a limit is over all the same.
  local function refund_all()
    local any_over = false
    for i = 1, parts do
      if N[rows[i] + 1] == REFUND_IF then
        refund(i)
        any_over = any_over or over[i]
      end
    end
    return not any_over or not is_denied()
  end

  local KEPT = { 'x', 'y', 'z', 'since', 'raw', 'ends', 'changed', 'head', 'tail', 'added', 'at', 'owed', 'all',
    'length', 'is_rewritten' }

  local function keep(b)
    local kept = b.kept or {}
    for _, name in ipairs(KEPT) do kept[name] = b[name] end
    b.kept = kept
  end

  local function restore(b)
    for _, name in ipairs(KEPT) do b[name] = b.kept[name] end
  end

  -- Does something once more whose outcome is known.
  local function again(act, i)
    local was_over, was_charged = over[i], charged[i]
    act(i)
    over[i], charged[i] = was_over, was_charged
  end

  -- Takes back what was charged in vain: begins anew, and does what is done all the same.
  local function give_back(refunded)
    for i = 1, parts do restore(subjects[i]) end
    for i = 1, parts do
      local act = N[rows[i] + 1]
      if act == ASK or act == CHARGE or act == REPORT or act == REFUND then again(first, i) end
    end
    for i = 1, parts do
      if refunded and N[rows[i] + 1] == REFUND_IF then again(refund, i) end
    end
    for i = 1, parts do
      if N[rows[i] + 1] == CHARGE_IF and charged[i] then ask(i) end
    end
  end

  local function decide()
    for i = 1, parts do first(i) end
    if not is_denied() then
      if not charge_all() then
        give_back(false)
      elseif not refund_all() then
        give_back(true)
      end
    end
    return not is_denied()
  end

  return function(at)
    local count = N[at + 3]
    parts = N[at + 4]
    if now >= N[at] or now < N[2] then return 'L' end
    local found = {}
    for i = 1, count do
      local b, letter = prepare(N[at + 3 + 2 * i], N[at + 4 + 2 * i])
      if not b then return letter end
      found[i] = b
    end
    for i = 1, count do tell(found[i], N[at + 4 + 2 * i]) end
    if foreign then return 'F' end
    local from = at + 3 + 2 * count
    for i = 1, parts do
      rows[i], subjects[i] = N[from + 2 * i], found[N[from + 2 * i + 1]]
    end
    passes_all, has_open_quota = N[at + 1] == 1, N[at + 2] == 1
    for i = 1, count do keep(found[i]) end
    local admitted = decide()
    if foreign then
      for i = 1, count do restore(found[i]) end
      return 'F'
    end
    return admitted and 'A' or 'D'
  end
end

-- One limit alone that is charged if it allows the cost.
local function judge_one(at)
  local r = N[at + 6]
  if now >= N[at] or now < N[2] then return 'L' end
  local b, letter = prepare(N[at + 5], r)
  if not b then return letter end
  tell(b, r)
  local allowed = KINDS[N[r]].charge(b, r)
  if allowed or N[at + 1] == 1 or N[r + 2] == OBSERVES or (N[r + 2] == QUOTA and N[at + 2] == 1) then return 'A' end
  return 'D'
end

local function is_one(at)
  if N[at + 3] ~= 1 or N[at + 4] ~= 1 or N[at + 6] ~= N[at + 7] then return false end
  local r = N[at + 6]
  return N[r] < 4 and N[r + 1] == CHARGE_IF and N[r + 3] == 0 and N[r + 8] < 0
end

local judge_several

-- The request's letter, and if something else is kept under a key, that key's number.
local function judge(at)
  foreign = nil
  if is_one(at) then return judge_one(at), foreign end
  judge_several = judge_several or new_judge()
  return judge_several(at), foreign
end

local function write_all()
  for _, b in pairs(buckets) do
    if b.changed then
      if b.kind == 4 then KINDS[4].write(b) else write(b) end
    end
  end
end

return judge, write_all

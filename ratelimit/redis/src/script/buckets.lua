-- Buckets kept as strings. A state is two or three integers, x, y and z; what they mean is its kind's business:
--   arrival time    x, y: when the bucket is full again, in microseconds and ticks
--   interval        x: the end of the interval that fills the bucket; y: the tokens which that one brings
--   window          x: the window's end; y: its count
--   sliding counter x: the current window's end; y: its count; z: that of the window before
-- Beside them: since when use has been above the soft limit, if it is.

local LAYOUT = { [0] = '>BI7I3', '>BI7I7', '>BI7I7', '>BI7I7I7' }
local LENGTH = { [0] = 11, 15, 15, 22 }
local SINCE = 7

-- The bucket of a key, with what the fast path has made of it.
local function bucket(key)
  local b
  if key > N[1] then
    b = { key = key, kind = 4, head = 0, tail = 0, added = 0, at = 0, owed = 0, since = 0, known = {}, ends = 0 }
  else
    b = { key = key, raw = values[key], x = 0, y = 0, z = 0, since = 0, ends = ends[key] or 0 }
    b.changed, ends[key] = ends[key] ~= nil, nil
  end
  buckets[key] = b
  return b
end

-- What is wrong with the request that is judged: the number of a key that holds something else.
local foreign

-- Whether the value is a state of this kind, which the bucket has then.
local function parse(b, kind)
  b.kind = kind
  local raw = b.raw
  if not raw then return is_absent(b.key) end
  local length, size = LENGTH[kind], #raw
  if size ~= length and size ~= length + SINCE then return false end
  local tag, x, y, z = unpacked(LAYOUT[kind], raw)
  if size > length then b.since = unpacked('>I7', raw, length + 1) end
  b.x, b.y = x, y
  if kind == 3 then
    b.z = z
  elseif kind == 0 and y >= TICKS then
    return false
  end
  return tag == kind + 1 and x < BEYOND and y < BEYOND and b.z < BEYOND and b.since < BEYOND
end

-- The state as it is kept.
local function raw(b)
  local text = b.raw
  if text == nil then
    local kind = b.kind
    if kind == 3 then
      text = packed(LAYOUT[3], 4, b.x, b.y, b.z)
    else
      text = packed(LAYOUT[kind], kind + 1, b.x, b.y)
    end
    if b.since > 0 then text = text .. packed('>I7', b.since) end
    b.raw = text
  end
  return text or ''
end

-- Notes that the state is another one, which matters until then.
local function changed(b, ending)
  b.raw, b.changed, b.ends = nil, true, ending
end

local function write(b)
  local key = KEYS[b.key]
  if b.ends > now then
    call('SET', key, raw(b), 'PX', lifetime(b.ends))
  else
    call('DEL', key)
  end
end


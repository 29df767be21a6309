
local at, judge, write_all = N[4], nil, nil
for i = 1, N[3] do
  local letter = fast_path(at)
  if not letter then
    if not judge then judge, write_all = slow_path() end
    local before, foreign = written, nil
    letter, foreign = judge(at)
    if letter ~= 'A' and letter ~= 'D' then
      for k = written, before + 1, -1 do texts[k] = nil end
      written = before
      if letter == 'F' then put(format('%d', foreign)) end
    end
  end
  letters[i] = letter
  at = at + 5 + 2 * N[at + 3] + 2 * N[at + 4]
end

for key, ending in pairs(ends) do
  if ending > now then
    call('SET', KEYS[key], values[key], 'PX', lifetime(ending))
  else
    call('DEL', KEYS[key])
  end
end
if write_all then write_all() end
return { now, table.concat(letters), table.concat(texts) }

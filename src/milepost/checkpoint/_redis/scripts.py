"""The two scripts: what is read of a thread at one moment, and what changes it in one step.

Both get the three keys of a thread and a list of requests. A script is sent by its digest, and in
full if the server does not know it. Scripts use no library of the server's Lua.

Reading answers with the thread's `rev`, then one reply for each request:

    E                       the entry, and the latest checkpoint of the root graph in the index
    G n field…              rows
    R from to limit         fields of the index, in their order; V the other way round
    F parents n field…      rows, and all that they are differences from
    A                       all rows
    C                       how many rows there are, and how many checkpoints and writes
    O namespace id          a checkpoint, or with an empty id the latest: the entry as for E; then
                            rows as for F: it, its parent, their writes, the checkpoints after
                            them; of both the fields of writes, and of the one after it

Writing answers 0 if a condition does not hold, and has changed nothing then. Otherwise it answers
how many writes the thread has had; a write that had been done before, when the reply was lost, is
not done again:

    = key value             the entry has this value; ~ it has another; > it has no smaller number
    !                       there is no entry
    # from to n             so many fields are in a part of the index
    E key value             set a value of the entry; M if it is larger; X key removes one
    S field row             set a row; N only if there is none
    U field n (at cell)…    set cells of a row, if there is one
    D field                 remove a row
    K                       remove the thread
"""

from __future__ import annotations

from typing import Final

from milepost._db.redis.commands import Script

_COMMON = r"""
local thread, rows, index = KEYS[1], KEYS[2], KEYS[3]
local call = redis.call
local at = 3
local function take()
  at = at + 1
  return ARGV[at - 1]
end
-- The cell that begins at a place (false for NULL), and where the next one begins.
local function cell(row, place)
  local size = row:byte(place)
  place = place + 1
  if size == 0 then return false, place end
  size = size - 1
  if size == 254 then
    local a, b, c, d = row:byte(place, place + 3)
    size, place = ((a * 256 + b) * 256 + c) * 256 + d, place + 4
  end
  return row:sub(place, place + size - 1), place + size
end
local function expire(default)
  local ttl = call('HGET', thread, 'ttl') or default
  if ttl == '-1' then
    call('PERSIST', thread) call('PERSIST', rows) call('PERSIST', index)
  elseif ttl ~= '' then
    local now = call('TIME')
    local ms = now[1] * 1000 + math.floor(now[2] / 1000) + math.floor(ttl * 1000)
    ms = string.format('%.0f', ms)
    call('PEXPIREAT', thread, ms) call('PEXPIREAT', rows, ms) call('PEXPIREAT', index, ms)
  end
  return ttl
end
"""

READ: Final = Script(
    "read a thread",
    _COMMON
    + r"""
-- ARGV: whether the thread has been used, the saver's time to live, requests
local function link(field, row, parents)
  local kind, ns, name = field:match('^(.)%z([^%z]*)%z([^%z]*)')
  local first, place = cell(row, 1)
  if not first then return nil end
  local second = cell(row, place)
  if kind == 'c' then
    if parents == '0' and second ~= '0' then return nil end
    return 'c\0' .. ns .. '\0' .. first
  end
  return 'b\0' .. ns .. '\0' .. (second or name) .. '\0' .. first
end
local function follow(field, parents, seen, reply)
  while field and not seen[field] do
    seen[field] = true
    local row = call('HGET', rows, field)
    if not row then break end
    reply[#reply + 1] = field
    reply[#reply + 1] = row
    field = link(field, row, parents)
  end
end
local function newest(ns)
  local first = 'c\0' .. ns .. '\0'
  return call('ZREVRANGEBYLEX', index, '(' .. first .. '\255', '[' .. first, 'LIMIT', 0, 1)
end
local function one(ns, id)
  local found, latest = {}, newest('')
  local graph = 'c\0' .. ns .. '\0'
  if id == '' then
    local head, status = call('HGET', thread, 'head'), call('HGET', thread, 'status')
    local last = newest(ns)[1]
    id = last and last:sub(#graph + 1) or ''
    if ns == '' and head and status ~= 'running' then id = head end
  end
  local ranges, seen = {}, {}
  for n = 1, 2 do
    if id ~= '' then
      follow(graph .. id, '0', seen, found)
      local writes = 'w\0' .. ns .. '\0' .. id .. '\0'
      local some = call('ZRANGEBYLEX', index, '[' .. writes, '(' .. writes .. '\255')
      local after = call('ZRANGEBYLEX', index, '[' .. graph .. id .. '\1', '(' .. graph .. '\255',
        'LIMIT', 0, 1)
      for _, field in ipairs(some) do
        found[#found + 1] = field
        found[#found + 1] = call('HGET', rows, field)
      end
      if after[1] then follow(after[1], '0', seen, found) end
      ranges[#ranges + 1] = {id, some, after}
      local row = call('HGET', rows, graph .. id)
      id = row and cell(row, 1) or ''
    end
  end
  return {{call('HGETALL', thread), latest}, found, ranges}
end
local replies = {call('HGET', thread, 'rev')}
if ARGV[1] == '1' and replies[1] then expire(ARGV[2]) end
while at <= #ARGV do
  local what = take()
  local reply
  if what == 'E' then
    reply = {call('HGETALL', thread), newest('')}
  elseif what == 'O' then
    local ns, id = take(), take()
    reply = one(ns, id)
  elseif what == 'G' then
    reply = {}
    for n = 1, tonumber(take()) do reply[n] = call('HGET', rows, take()) end
  elseif what == 'R' then
    local first, last = take(), take()
    reply = call('ZRANGEBYLEX', index, first, last, 'LIMIT', 0, take())
  elseif what == 'V' then
    local first, last = take(), take()
    reply = call('ZREVRANGEBYLEX', index, last, first, 'LIMIT', 0, take())
  elseif what == 'F' then
    local parents, seen = take(), {}
    reply = {}
    for n = 1, tonumber(take()) do follow(take(), parents, seen, reply) end
  elseif what == 'A' then
    reply = call('HGETALL', rows)
  elseif what == 'C' then
    reply = {call('HLEN', rows), call('ZLEXCOUNT', index, '[c', '(d'),
      call('ZLEXCOUNT', index, '[w', '(x')}
  end
  replies[#replies + 1] = reply
end
return replies
""",
)

WRITE: Final = Script(
    "change a thread",
    _COMMON
    + r"""
-- ARGV: the new rev, the saver's time to live, conditions and changes
local rev = ARGV[1]
local before = call('HGET', thread, 'rev')
if before == rev then
  -- Written again: what waits until the write is on the disk waits for this one.
  call('HSET', thread, 'rev', rev)
  return tonumber(call('HGET', thread, 'seq'))
end
local function is_less(a, b)
  for n = 1, math.min(#a, #b) do
    local x, y = a:byte(n), b:byte(n)
    if x ~= y then return x < y end
  end
  return #a < #b
end
local function cells(row)
  local found, place, value = {}, 1, nil
  while place <= #row do
    local start = place
    value, place = cell(row, place)
    found[#found + 1] = row:sub(start, place - 1)
  end
  return found
end
local function list(field)
  if field:sub(1, 1) ~= 'b' then call('ZADD', index, 0, field) end
end
while at <= #ARGV do
  local what = take()
  if what == '=' then
    local key, value = take(), take()
    if call('HGET', thread, key) ~= value then return 0 end
  elseif what == '~' then
    local key, value = take(), take()
    local found = call('HGET', thread, key)
    if not found or found == value then return 0 end
  elseif what == '>' then
    local key, value = take(), tonumber(take())
    if tonumber(call('HGET', thread, key) or '0') < value then return 0 end
  elseif what == '!' then
    if before then return 0 end
  elseif what == '#' then
    local first, last = take(), take()
    if call('ZLEXCOUNT', index, first, last) ~= tonumber(take()) then return 0 end
  elseif what == 'E' then
    local key, value = take(), take()
    call('HSET', thread, key, value)
  elseif what == 'X' then
    call('HDEL', thread, take())
  elseif what == 'M' then
    local key, value = take(), take()
    if is_less(call('HGET', thread, key) or '', value) then call('HSET', thread, key, value) end
  elseif what == 'S' then
    local field, row = take(), take()
    call('HSET', rows, field, row)
    list(field)
  elseif what == 'N' then
    local field, row = take(), take()
    if call('HSETNX', rows, field, row) == 1 then list(field) end
  elseif what == 'U' then
    local field, count = take(), tonumber(take())
    local row = call('HGET', rows, field)
    local found = row and cells(row)
    for n = 1, count do
      local place, value = tonumber(take()), take()
      if found then found[place] = value ~= '' and value or '\0' end
    end
    if found then call('HSET', rows, field, table.concat(found)) end
  elseif what == 'D' then
    local field = take()
    call('HDEL', rows, field)
    call('ZREM', index, field)
  elseif what == 'K' then
    call('UNLINK', thread, rows, index)
    return 1
  end
end
call('HSET', thread, 'rev', rev)
if expire(ARGV[2]) == '' then
  local left = call('PTTL', thread)
  if left > 0 then call('PEXPIRE', rows, left) call('PEXPIRE', index, left) end
end
return call('HINCRBY', thread, 'seq', 1)
""",
)

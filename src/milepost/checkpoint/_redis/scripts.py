"""The scripts: two read what plain commands would need several round trips for, one stores a step.

All get the three keys of a thread. A script that reads replies with the thread's `rev`, and with
what it is asked for. All else is read and written by plain commands (`thread_io.py`). The scripts
use only what every server's Lua has: no library.

The script that writes gets a new `rev`, each `Condition`, then each `Change`: opcodes with their
arguments. An opcode is one character: Python uses the names, the script compares the characters and
has the names in comments. No opcode is stored. The script replies 0 if a condition does not hold;
then it has changed nothing. Otherwise it replies with the number of writes that the thread has had.
It does nothing if the thread has the new `rev` already: then the write was sent again, since the
first reply was lost.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from milepost._db.redis.commands import Script


class Condition(StrEnum):
    """What must hold before the script that writes changes anything."""

    EQUALS = "="
    """`key value`: the entry has this value."""
    DIFFERS = "~"
    """`key value`: the entry has another value."""
    AT_LEAST = ">"
    """`key number`: the entry has this number or a larger one."""
    IS_NEW = "!"
    """The thread does not exist."""
    COUNT = "#"
    """`from to n`: a part of the index has exactly n fields."""


class Change(StrEnum):
    """What the script that writes does to a thread."""

    SET_VALUE = "E"
    """`key value`: set a value of the entry."""
    RAISE_VALUE = "M"
    """`key value`: set a value of the entry, if it sorts after the present one."""
    PUT_ROW = "S"
    """`field row`: add a row, or replace it."""
    ADD_ROW = "N"
    """`field row`: add a row, unless it exists."""
    UPDATE_ROW = "U"
    """`field n (number cell)…`: replace cells of a row, if the row exists."""


_COMMON = r"""
local thread, rows, index = KEYS[1], KEYS[2], KEYS[3]
local call = redis.call
local at = 3
local function take()
  at = at + 1
  return ARGV[at - 1]
end
-- The cell that begins at a place (false for NULL), and where the next one begins. It is NULL if a
-- damaged row ends before.
local function cell(row, place)
  local size = row:byte(place) or 0
  place = place + 1
  if size == 0 then return false, place end
  size = size - 1
  if size == 254 then
    local a, b, c, d = row:byte(place, place + 3)
    if not d then return false, #row + 1 end
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

_READ: Final = (
    _COMMON
    + r"""
-- ARGV: whether this read counts as use of the thread, the saver's time to live, what is asked for
local function answer(found)
  local rev = call('HGET', thread, 'rev')
  if ARGV[1] == '1' and rev then expire(ARGV[2]) end
  return {rev, found}
end
local function link(field, row)
  local kind, ns, name = field:match('^(.)%z([^%z]*)%z([^%z]*)')
  local first, place = cell(row, 1)
  if not first then return nil end
  local second = cell(row, place)
  if kind == 'c' then
    if second ~= '0' then return nil end
    return 'c\0' .. ns .. '\0' .. first
  end
  return 'b\0' .. ns .. '\0' .. (second or name) .. '\0' .. first
end
local function follow(field, seen, reply)
  while field and not seen[field] do
    seen[field] = true
    local row = call('HGET', rows, field)
    if not row then break end
    reply[#reply + 1] = field
    reply[#reply + 1] = row
    field = link(field, row)
  end
end
"""
)

READ_CHAINS: Final = Script(
    _READ
    + r"""
local found, seen = {}, {}
while at <= #ARGV do follow(take(), seen, found) end
return answer(found)
""",
)
"""`field…`: rows, and all rows that they are differences from."""

READ_CHECKPOINT: Final = Script(
    _READ
    + r"""
local ns, id = take(), take()
local function newest(ns)
  local first = 'c\0' .. ns .. '\0'
  return call('ZREVRANGEBYLEX', index, '(' .. first .. '\255', '[' .. first, 'LIMIT', 0, 1)
end
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
    follow(graph .. id, seen, found)
    local writes = 'w\0' .. ns .. '\0' .. id .. '\0'
    local some = call('ZRANGEBYLEX', index, '[' .. writes, '(' .. writes .. '\255')
    local after = call('ZRANGEBYLEX', index, '[' .. graph .. id .. '\1', '(' .. graph .. '\255',
      'LIMIT', 0, 1)
    for _, field in ipairs(some) do
      found[#found + 1] = field
      found[#found + 1] = call('HGET', rows, field)
    end
    if after[1] then follow(after[1], seen, found) end
    ranges[#ranges + 1] = {id, some, after}
    local row = call('HGET', rows, graph .. id)
    id = row and cell(row, 1) or ''
  end
end
local entry = {call('HGETALL', thread), latest, call('PTTL', thread), call('TIME')}
return answer({entry, found, ranges})
""",
)
"""`namespace id`: all that one checkpoint is read from; with an empty id, the latest. The reply has
the entry as `entry_commands` and `life_commands` (`thread_io.py`) read it; rows as for
`READ_CHAINS`: the checkpoint, its parent, the writes of both, the checkpoint after each; and for
both the id, the fields of their writes, and the field of the checkpoint after."""

WRITE: Final = Script(
    _COMMON
    + r"""
-- ARGV: the new rev, the saver's time to live, conditions and changes
-- Opcodes have their names in `Condition` and `Change`.
local rev = ARGV[1]
local before = call('HGET', thread, 'rev')
if before == rev then
  -- The write was sent again. This HSET gives WAITAOF a write of this connection to wait for.
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
  if what == '=' then -- EQUALS
    local key, value = take(), take()
    if call('HGET', thread, key) ~= value then return 0 end
  elseif what == '~' then -- DIFFERS
    local key, value = take(), take()
    local found = call('HGET', thread, key)
    if not found or found == value then return 0 end
  elseif what == '>' then -- AT_LEAST
    local key, value = take(), tonumber(take())
    if tonumber(call('HGET', thread, key) or '0') < value then return 0 end
  elseif what == '!' then -- IS_NEW
    if before then return 0 end
  elseif what == '#' then -- COUNT
    local first, last = take(), take()
    if call('ZLEXCOUNT', index, first, last) ~= tonumber(take()) then return 0 end
  elseif what == 'E' then -- SET_VALUE
    local key, value = take(), take()
    call('HSET', thread, key, value)
  elseif what == 'M' then -- RAISE_VALUE
    local key, value = take(), take()
    if is_less(call('HGET', thread, key) or '', value) then call('HSET', thread, key, value) end
  elseif what == 'S' then -- PUT_ROW
    local field, row = take(), take()
    call('HSET', rows, field, row)
    list(field)
  elseif what == 'N' then -- ADD_ROW
    local field, row = take(), take()
    if call('HSETNX', rows, field, row) == 1 then list(field) end
  elseif what == 'U' then -- UPDATE_ROW
    local field, count = take(), tonumber(take())
    local row = call('HGET', rows, field)
    local found = row and cells(row)
    for n = 1, count do
      local place, value = tonumber(take()), take()
      if found then found[place] = value ~= '' and value or '\0' end
    end
    if found then call('HSET', rows, field, table.concat(found)) end
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

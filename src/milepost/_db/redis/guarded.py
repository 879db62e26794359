"""A script that runs commands only if what was read before still holds: one script for all uses.

Python decides what to write, from what it has read. The script then makes sure that the decision
still holds: each guard is a command whose reply must be the expected one. So no logic is written in
Lua, and where scripts are barred, a transaction does the same.

The answer is a list: `[DONE, reply, ...]`; or `[REFUSED, number]` with the number of the first
guard, from 1, that does not hold. Then no command has run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from milepost._db.redis.commands import Argument, Command, RunScript, Script

MAX_ARGUMENTS: Final = 1000
"""Arguments that one command of a script may have: Lua has a stack of 8,000."""

DONE: Final = 1
"""Begins an answer: all guards hold, and the replies of the commands follow."""
REFUSED: Final = 0
"""Begins an answer: the guard with the number that follows does not hold."""

# -- what arguments of the script begin with; the same characters are in its Lua source

_NIL: Final = b"-"
"""As the expected reply of a guard: nil."""
_REPLY: Final = b"="
"""Before the expected reply of a guard: a text, or a number as text."""
_VALUE: Final = b"\0#"
"""Before the place of a counter: the script replaces the argument with the counter's new value."""
_NEGATIVE: Final = b"\0-"
"""Before the place of a counter: the script replaces the argument with minus the new value."""


class Guard(NamedTuple):
    """A command that reads, and the expected reply: a text, a number as text, or None for nil."""

    args: tuple[Argument, ...]
    expected: bytes | None


class Counter(NamedTuple):
    """A field of a hash that the script increments; `value_of` is replaced with its new value."""

    key: bytes
    field: str


class Guarded(NamedTuple):
    """Commands that run if all guards hold."""

    guards: Sequence[Guard]
    commands: Sequence[Command]
    counters: Sequence[Counter]


def value_of(counter: int, *, negative: bool = False) -> bytes:
    """An argument that the script replaces with the new value of a counter, or minus that value.

    `counter` is its place among the counters of the script, from 0.
    """
    return b"%s%d" % (_NEGATIVE if negative else _VALUE, counter)


def is_done(answer: Sequence[Any]) -> bool:
    """Whether all guards have held, so that the commands have run."""
    return bool(answer[0] == DONE)


# `-` and `=` before replies, `\000#` and `\000-` before places are _NIL, _REPLY, _VALUE, _NEGATIVE.
_SCRIPT: Final = Script(
    """
local at = 0
local function take()
  at = at + 1
  return ARGV[at]
end
local function command()
  local args = {}
  for i = 1, tonumber(take()) do
    args[i] = take()
  end
  return args
end
local counters = {}
for i = 1, tonumber(take()) do
  counters[i] = {take(), take()}
end
for i = 1, tonumber(take()) do
  local reply = redis.call(unpack(command()))
  local found = '-'
  if reply then
    found = '=' .. tostring(reply)
  end
  if found ~= take() then
    return {0, i}
  end
end
local numbers = {}
for i, counter in ipairs(counters) do
  local value = redis.call('HINCRBY', counter[1], counter[2], 1)
  numbers['\\000#' .. (i - 1)] = string.format('%.0f', value)
  numbers['\\000-' .. (i - 1)] = string.format('%.0f', -value)
end
local answer = {1}
for i = 1, tonumber(take()) do
  local args = command()
  for j = 1, #args do
    args[j] = numbers[args[j]] or args[j]
  end
  answer[i + 1] = redis.call(unpack(args))
end
return answer
""",
)


def guarded(
    keys: Sequence[bytes],
    guards: Sequence[Guard],
    commands: Sequence[Command],
    counters: Sequence[Counter] = (),
    *,
    once: bool = False,
) -> RunScript:
    """Commands that run if all guards hold. `keys` are all keys that guards and commands use."""
    args: list[Argument] = [len(counters)]
    for counter in counters:
        args += counter
    args.append(len(guards))
    for guard in guards:
        expected = _NIL if guard.expected is None else _REPLY + guard.expected
        args += (len(guard.args), *guard.args, expected)
    args.append(len(commands))
    for one in commands:
        args += (len(one.args), *one.args)
    return RunScript(_SCRIPT, keys, args, Guarded(guards, commands, counters), once)


def reading(keys: Sequence[bytes], commands: Sequence[Command]) -> RunScript:
    """Commands that read, all at one moment; the answer begins with `DONE`."""
    return guarded(keys, (), commands)

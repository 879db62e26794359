"""Commands that are done as a whole if what was read before still holds: one script for all uses.

The decision what to write is made in Python, from what was read. The script makes sure of it: each
guard is a command whose reply must be the expected one. So nothing of the logic is in Lua, and
where scripts are barred a transaction does the same.

The answer is a list: `[1, reply, ...]`, or `[0, number]` with the number of the guard, from 1,
that did not hold; then nothing was done.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

from milepost._db.redis.commands import Argument, Command, Decision, Plan, RunScript, Script

ARGUMENTS: Final = 1000
"""Arguments that one command of a script may have: Lua has a stack of 8,000."""


class Guard(NamedTuple):
    """A command that reads, and the reply that is expected: a text, a number as text, or none."""

    args: tuple[Argument, ...]
    expected: bytes | None


class Counter(NamedTuple):
    """A field of a hash that is raised by one; its new value takes the place of `number(...)`."""

    key: bytes
    field: str


def number(at: int, sign: str = "") -> bytes:
    """An argument that the script replaces with the value of the counter at this place; with the
    sign `-` its negative."""
    return b"\0%s%d" % (b"-" if sign else b"#", at)


_SCRIPT: Final = Script(
    "guarded",
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
    """Commands under guards. `keys` are all keys that any of it touches."""
    args: list[Argument] = [len(counters)]
    for counter in counters:
        args += counter
    args.append(len(guards))
    for guard in guards:
        expected = b"-" if guard.expected is None else b"=" + guard.expected
        args += (len(guard.args), *guard.args, expected)
    args.append(len(commands))
    for one in commands:
        args += (len(one.args), *one.args)
    plan = partial(_plan, guards, commands, counters)
    return RunScript(_SCRIPT, keys, args, plan, once, watch=bool(guards or counters))


def reading(keys: Sequence[bytes], commands: Sequence[Command]) -> RunScript:
    """Commands that read, all at one moment; the answer begins with 1."""
    return guarded(keys, (), commands)


def _plan(
    guards: Sequence[Guard], commands: Sequence[Command], counters: Sequence[Counter]
) -> Plan:
    for at, guard in enumerate(guards, 1):
        reply = yield Command(guard.args)
        found = str(reply).encode() if isinstance(reply, int) else reply
        if found != guard.expected:
            return Decision((), [0, at])
    numbers: dict[Argument, bytes] = {}
    raised = []
    for at, counter in enumerate(counters):
        value = int((yield Command(("HGET", *counter))) or 0) + 1
        numbers[number(at)], numbers[number(at, "-")] = b"%d" % value, b"-%d" % value
        raised.append(Command(("HSET", *counter, value)))
    ready = [Command(tuple([numbers.get(arg, arg) for arg in one.args])) for one in commands]
    # The counters are written last: the replies of the commands come first.
    return Decision([*ready, *raised], [1], with_replies=True)

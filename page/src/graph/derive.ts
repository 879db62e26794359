// What a log tells about a graph: the nodes that ran, what ran after them, and what happened.

import type { GraphDrawing, LogEntry, Task } from "../api/types";

export type Mark = "ran" | "next" | "failed" | "waiting";

/** The nodes whose writes made a checkpoint. */
export function ranAt(entry: LogEntry, entries: ReadonlyMap<string, LogEntry>): string[] {
  if (entry.source === "input" || entry.source === "fork") return [];
  const wrote = Object.keys(entry.writes ?? {}).filter((name) => !name.startsWith("__"));
  if (wrote.length || entry.source === "update") return wrote;
  const parent = entry.parent_id ? entries.get(entry.parent_id) : undefined;
  return parent ? unique(parent.tasks.map((task) => task.name)).filter(real) : [];
}

const real = (name: string) => !name.startsWith("__");
const unique = (names: string[]) => [...new Set(names)];

export const index = (entries: LogEntry[]): Map<string, LogEntry> =>
  new Map(entries.map((entry) => [entry.checkpoint_id, entry]));

/** Whether a task waits for an answer. */
export const asks = (task: Task): boolean => task.interrupts.some((each) => !each.answered);

/** A graph with the edges that runs have taken. */
export function fromLog(entries: LogEntry[]): GraphDrawing {
  const known = index(entries);
  const nodes = new Set<string>(["__start__"]);
  const edges = new Map<string, { source: string; target: string }>();
  const join = (source: string, target: string) => {
    nodes.add(source).add(target);
    edges.set(`${source}\0${target}`, { source, target });
  };
  for (const entry of [...entries].reverse()) {
    const next = unique(entry.next).filter(real);
    const ran = ranAt(entry, known);
    const first = entry.source === "input" || (!ran.length && !entry.parent_id);
    for (const node of [...ran, ...next, ...entry.tasks.map((task) => task.name).filter(real)]) {
      nodes.add(node);
    }
    if (first) for (const node of next) join("__start__", node);
    for (const node of ran) {
      for (const target of next) join(node, target);
      if (!next.length && !entry.next.length) join(node, "__end__");
    }
    const parent = entry.parent_id ? known.get(entry.parent_id) : undefined;
    if (parent?.source === "input" && parent.next.every((name) => !real(name))) {
      for (const node of next) if (!ran.length) join("__start__", node);
    }
  }
  return { nodes: [...nodes].map((id) => ({ id })), edges: [...edges.values()] };
}

/** What each node did at a checkpoint, or is about to do. */
export function marks(entry: LogEntry, entries: ReadonlyMap<string, LogEntry>): Map<string, Mark> {
  const found = new Map<string, Mark>();
  for (const node of ranAt(entry, entries)) found.set(node, "ran");
  for (const node of entry.next) found.set(node, "next");
  for (const task of entry.tasks) {
    if (task.error) found.set(task.name, "failed");
    else if (asks(task)) found.set(task.name, "waiting");
  }
  if (entry.source === "input") found.set("__start__", "ran");
  if (!entry.next.length && !entry.tasks.length) found.set("__end__", "ran");
  return found;
}

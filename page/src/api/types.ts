// The records that the server answers with.

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };
export type Path = (string | number)[];

/** A time in ISO 8601, or in seconds since 1970. */
export type Time = string | number | null;

export interface GraphName {
  graph_id: string;
  assistant_id: string;
  name: string;
}

export interface Info {
  version: string;
  database: { url: string; kind: string; flavour: string };
  write: boolean;
  store: boolean;
  graphs: GraphName[];
}

export interface ThreadRow {
  thread_id: string;
  status: string;
  metadata: JsonObject;
  created_at: Time;
  updated_at: Time;
  checkpoints: number | null;
  bytes: number | null;
}

export interface Interrupt {
  id: string;
  value: Json;
  answered?: boolean;
}

export interface Task {
  id: string;
  name: string;
  error: string | null;
  interrupts: Interrupt[];
}

export interface LogEntry {
  checkpoint_id: string;
  parent_id: string | null;
  namespace: string;
  step: number | null;
  source: string | null;
  created_at: Time;
  run_id: string | null;
  next: string[];
  tasks: Task[];
  writes: Record<string, string[]>;
  tags: string[];
  /** Why the checkpoint cannot be read. */
  problem?: string | null;
}

export interface StateView {
  checkpoint_id: string;
  values: Json;
  next: string[];
  tasks: Task[];
  interrupts: Interrupt[];
  metadata: JsonObject;
  created_at: Time;
  bytes: number | null;
}

export interface Change {
  path: Path;
  kind: "added" | "removed" | "changed";
  before: Json;
  after: Json;
  lines: string[] | null;
}

export interface Blame {
  path: Path;
  checkpoint_id: string;
  step: number | null;
  nodes: string[];
  run_id: string | null;
  created_at: Time;
}

export interface GraphDrawing {
  nodes: { id: string; kind?: string }[];
  edges: { source: string; target: string; conditional?: boolean; label?: string | null }[];
  input_schema?: JsonObject | null;
}

export interface Stats {
  threads: number;
  checkpoints: number;
  writes: number;
  bytes: number;
  kinds: Record<string, number>;
  channels: Record<string, number>;
  statuses: Record<string, number>;
  largest: { thread_id: string; checkpoints: number; bytes: number }[];
}

export interface StoreItem {
  namespace: string[];
  key: string;
  value: JsonObject;
  created_at: string;
  updated_at: string;
  score?: number | null;
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

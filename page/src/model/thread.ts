// One thread in one namespace: its checkpoints, newest first, and what comes in while it runs.

import { signal } from "@preact/signals";
import * as api from "../api/client";
import type { LogEntry, ThreadRow } from "../api/types";
import { message } from "./load";

export class Thread {
  readonly entries = signal<LogEntry[]>([]);
  readonly more = signal(false);
  readonly loading = signal(true);
  readonly error = signal<string | null>(null);
  readonly row = signal<ThreadRow | null>(null);
  /** The thread with its checkpoints and bytes counted, which the stream does not do. */
  readonly counted = signal<ThreadRow | null>(null);
  readonly namespaces = signal<string[]>([""]);
  readonly live = signal(false);
  /** Checkpoints that came in since the thread was opened. */
  readonly fresh = new Set<string>();
  private source: EventSource | null = null;
  private reading = false;
  private closed = false;

  constructor(
    readonly id: string,
    readonly namespace: string,
  ) {}

  async open(): Promise<void> {
    this.loading.value = true;
    this.error.value = null;
    void this.readNamespaces();
    void this.count();
    try {
      const { entries, more } = await api.log(this.at(), null);
      if (this.closed) return;
      this.entries.value = merge(this.entries.peek(), entries);
      this.more.value = more;
      this.listen();
      document.addEventListener("visibilitychange", this.seen);
    } catch (error) {
      this.error.value = message(error);
    } finally {
      this.loading.value = false;
    }
  }

  close(): void {
    this.closed = true;
    this.source?.close();
    document.removeEventListener("visibilitychange", this.seen);
  }

  /** A browser has few connections to a server: a page that is not looked at gives its own back. */
  private readonly seen = (): void => {
    this.source?.close();
    this.live.value = false;
    if (document.hidden || this.closed) return;
    this.listen();
    void this.newest().catch(() => undefined);
  };

  at(checkpoint: string | null = null): api.At {
    return { thread: this.id, namespace: this.namespace, checkpoint };
  }

  /** Reads the next older checkpoints. */
  async older(): Promise<void> {
    const last = this.entries.peek().at(-1);
    if (!last || !this.more.peek() || this.reading) return;
    this.reading = true;
    try {
      const { entries, more } = await api.log(this.at(), last.checkpoint_id);
      this.entries.value = merge(this.entries.peek(), entries);
      this.more.value = more;
    } catch (error) {
      this.error.value = message(error);
    } finally {
      this.reading = false;
    }
  }

  /** Reads the newest checkpoints again: after a run, or when the stream was cut. */
  async newest(limit?: number): Promise<void> {
    const { entries, more } = await api.log(this.at(), null, limit);
    if (this.closed) return;
    const known = new Set(this.entries.peek().map((entry) => entry.checkpoint_id));
    if (more && !entries.some((entry) => known.has(entry.checkpoint_id))) {
      // So much is new that there would be a gap: the older ones are read again on demand.
      this.entries.value = [];
      this.more.value = true;
    }
    this.add(entries);
    void this.readNamespaces();
  }

  add(entries: LogEntry[]): void {
    const known = new Set(this.entries.peek().map((entry) => entry.checkpoint_id));
    for (const { checkpoint_id } of entries) {
      if (!known.has(checkpoint_id) && !this.loading.peek()) this.fresh.add(checkpoint_id);
    }
    this.entries.value = merge(this.entries.peek(), entries);
  }

  private async count(): Promise<void> {
    try {
      this.counted.value = await api.thread(this.id);
    } catch {
      // The log says what is wrong with the thread.
    }
  }

  private async readNamespaces(): Promise<void> {
    try {
      const { namespaces } = await api.namespaces(this.id);
      this.namespaces.value = [...new Set(["", ...namespaces])];
    } catch {
      // The log says what is wrong with the thread.
    }
  }

  private listen(): void {
    this.source?.close();
    const source = api.live(this.at(this.entries.peek()[0]?.checkpoint_id ?? null));
    this.source = source;
    source.addEventListener("open", () => {
      this.live.value = true;
    });
    source.addEventListener("error", () => {
      this.live.value = false;
    });
    source.addEventListener("checkpoint", (event) => {
      const entry = parse<LogEntry>(event);
      if (entry) this.add([entry]);
    });
    source.addEventListener("thread", (event) => {
      const row = parse<ThreadRow>(event);
      if (!row) return;
      // A subgraph may have begun, or its first checkpoint may be there now.
      if (this.row.peek()) void this.readNamespaces();
      if (this.row.peek() && row.status !== "running") void this.count();
      this.row.value = row;
    });
    source.addEventListener("deleted", () => {
      source.close();
      this.live.value = false;
      this.entries.value = [];
      this.error.value = `The thread '${this.id}' has been deleted.`;
    });
  }
}

function parse<T>(event: Event): T | null {
  try {
    return JSON.parse((event as MessageEvent<string>).data) as T;
  } catch {
    return null;
  }
}

/** Both lists as one, newest first, with the newer record of a checkpoint that is in both. */
export function merge(old: LogEntry[], incoming: LogEntry[]): LogEntry[] {
  const known = new Map(old.map((entry) => [entry.checkpoint_id, entry]));
  for (const entry of incoming) known.set(entry.checkpoint_id, entry);
  // Ids of checkpoints start with their time.
  return [...known.values()].sort((a, b) => (a.checkpoint_id < b.checkpoint_id ? 1 : -1));
}

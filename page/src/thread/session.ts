// What can be done with the open thread: run it, answer it, fork it.

import { computed, effect, signal } from "@preact/signals";
import * as api from "../api/client";
import type { GraphDrawing, Json, LogEntry, Path } from "../api/types";
import { asks } from "../graph/derive";
import { info } from "../model/app";
import { current, setQuery } from "../model/router";
import { Run } from "../model/run";
import type { Thread } from "../model/thread";

export class Session {
  readonly chosenGraph = signal<string | null>(null);
  readonly run = signal<Run | null>(null);
  /** What the fork window starts with, while it is open. */
  readonly forking = signal<{ entry: LogEntry; keys: string[] } | null>(null);
  /** The value whose writers are shown. */
  readonly blaming = signal<{ checkpoint: string; path: Path } | null>(null);

  /** The graph that runs use, as it is drawn; null while it is asked for, or if there is none. */
  readonly drawing = signal<GraphDrawing | null>(null);
  /** Whether the drawing is there, or will not come. */
  readonly known = signal(false);
  private readonly stopReading: () => void;
  private soon = 0;

  /** The graph that runs use: the chosen one, the thread's own, or the only one; a new thread takes
   *  the first. A thread that does not say its graph must not be run with another one by mistake. */
  readonly graph = computed<string | null>(() => {
    const graphs = info.value?.graphs ?? [];
    const known = (id: unknown) => graphs.some((graph) => graph.graph_id === id);
    if (known(this.chosenGraph.value)) return this.chosenGraph.value;
    const own = this.thread.row.value?.metadata?.["graph_id"];
    if (typeof own === "string" && known(own)) return own;
    const any = graphs.length === 1 || current.value.query.has("new");
    return (any && graphs[0]?.graph_id) || null;
  });

  readonly canWrite = computed(
    () => Boolean(info.value?.write) && this.graph.value !== null && !this.thread.namespace,
  );

  readonly running = computed(() => this.run.value?.outcome.value === "running");

  readonly status = computed(() => {
    if (this.running.value) return "busy";
    const told = this.thread.row.value?.status ?? "idle";
    if (told !== "idle") return told === "running" ? "busy" : told;
    // LangGraph's databases keep no status.
    const newest = this.thread.entries.value[0];
    if (newest?.tasks.some((task) => task.error)) return "error";
    return newest?.tasks.some(asks) ? "interrupted" : "idle";
  });

  constructor(readonly thread: Thread) {
    this.stopReading = effect(() => void this.read(this.graph.value));
  }

  async start(title: string, request: Omit<api.RunRequest, "graph_id">): Promise<void> {
    const graph_id = this.graph.peek();
    if (!graph_id) return;
    this.chosenGraph.value = graph_id;
    this.run.peek()?.leave();
    const run = new Run(title);
    this.run.value = run;
    setQuery({ at: null, vs: null });
    await run.start(this.thread.id, { graph_id, ...request }, () => this.saved());
    await this.thread.newest().catch(() => undefined);
  }

  /** Saves an update as a new branch. */
  async fork(entry: LogEntry, values: Json, node: string): Promise<void> {
    await api.edit(this.thread.id, {
      values,
      ...(node ? { as_node: node } : {}),
      checkpoint_id: entry.checkpoint_id,
    });
    await this.thread.newest();
    setQuery({ at: null, vs: null });
  }

  close(): void {
    this.stopReading();
    clearTimeout(this.soon);
    this.run.peek()?.leave();
  }

  private async read(id: string | null): Promise<void> {
    this.drawing.value = null;
    this.known.value = id === null;
    if (id === null) return;
    const found = await api.graph(id).catch(() => null); // The log still tells what ran.
    if (this.graph.peek() !== id) return;
    this.drawing.value = found;
    this.known.value = true;
  }

  /** A run tells of a checkpoint, which may be there a moment later: reads the log soon. */
  private saved(): void {
    if (current.peek().query.has("new")) {
      setQuery({ new: null });
      void this.thread.open();
    } else if (!this.soon) {
      this.soon = window.setTimeout(() => {
        this.soon = 0;
        void this.thread.newest(20).catch(() => undefined);
      }, 200);
    }
  }
}

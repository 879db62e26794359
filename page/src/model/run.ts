// A run started from the page: its tokens and steps as they come.

import { signal } from "@preact/signals";
import * as api from "../api/client";
import { isObject, type Json } from "../api/types";
import { messageText } from "./messages";
import { aborted, message } from "./load";

export interface Said {
  id: string;
  node: string | null;
  text: string;
}

export type Outcome = "running" | "done" | "interrupted" | "failed" | "stopped";

export class Run {
  readonly outcome = signal<Outcome>("running");
  readonly said = signal<Said[]>([]);
  readonly steps = signal<string[]>([]);
  readonly error = signal<string | null>(null);
  private controller = new AbortController();

  constructor(readonly title: string) {}

  async start(
    thread: string,
    request: api.RunRequest,
    checkpoint: () => void,
  ): Promise<void> {
    try {
      for await (const { event, data } of api.run(thread, request, this.controller.signal)) {
        this.take(event, JSON.parse(data) as Json, checkpoint);
      }
      if (this.outcome.peek() === "running") this.outcome.value = "done";
    } catch (error) {
      if (aborted(error)) {
        this.outcome.value = "stopped";
        return;
      }
      this.error.value = message(error);
      this.outcome.value = "failed";
    }
  }

  /** Stops watching; the run goes on. */
  leave(): void {
    this.controller.abort();
  }

  /** Ends the run. What it has saved stays. */
  async stop(thread: string): Promise<void> {
    try {
      await api.cancel(thread);
    } catch (error) {
      this.error.value = message(error);
    }
    this.controller.abort();
  }

  private take(event: string, data: Json, checkpoint: () => void): void {
    if (event === "messages" || event.startsWith("messages|")) this.token(data);
    else if (event === "updates") this.step(data);
    else if (event === "checkpoint") checkpoint();
    else if (event === "interrupted") this.outcome.value = "interrupted";
    else if (event === "error") {
      this.error.value = reason(data);
      this.outcome.value = "failed";
    }
  }

  private token(data: Json): void {
    const [chunk, about] = Array.isArray(data) ? data : [data, null];
    if (!isObject(chunk)) return;
    const text = messageText(chunk["content"] ?? "");
    if (!text) return;
    const node = isObject(about) ? about["langgraph_node"] : null;
    const name = typeof node === "string" ? node : null;
    const said = this.said.peek();
    const last = said.at(-1);
    const id = typeof chunk["id"] === "string" ? chunk["id"] : "";
    if (last && last.id === id && last.node === name) {
      this.said.value = [...said.slice(0, -1), { ...last, text: last.text + text }];
    } else {
      this.said.value = [...said, { id, node: name, text }];
    }
  }

  private step(data: Json): void {
    if (!isObject(data)) return;
    const nodes = Object.keys(data).filter((name) => !name.startsWith("__"));
    if (nodes.length) this.steps.value = [...this.steps.peek(), nodes.join(", ")];
  }
}

function reason(data: Json): string {
  if (typeof data === "string") return data;
  if (isObject(data)) {
    for (const key of ["message", "detail", "error"]) {
      if (typeof data[key] === "string") return data[key];
    }
  }
  return JSON.stringify(data);
}

// The list of threads: pages come as they scroll into sight.

import { signal } from "@preact/signals";
import * as api from "../api/client";
import type { Query } from "../api/http";
import type { ThreadRow } from "../api/types";
import { aborted, message } from "./load";

const size = 100;

export class ThreadList {
  readonly rows = signal<ReadonlyMap<number, ThreadRow>>(new Map());
  readonly total = signal<number | null>(null);
  readonly error = signal<string | null>(null);
  readonly loading = signal(true);
  private query: Query = {};
  private asked = new Set<number>();
  private seen: [number, number] = [0, 1];
  private controller = new AbortController();

  /** Starts with other filters. The rows of before stay in sight until the first page is there. */
  filter(query: Query): void {
    this.query = query;
    this.controller.abort();
    this.controller = new AbortController();
    this.asked = new Set([0]);
    this.loading.value = true;
    void this.page(0, true);
  }

  /** Loads the pages that hold these rows. */
  show(first: number, last: number): void {
    this.seen = [first, last];
    const total = this.total.peek();
    if (total === null) return;
    const end = Math.min(last, total);
    for (let page = Math.floor(first / size); page * size < end; page += 1) {
      if (this.asked.has(page)) continue;
      this.asked.add(page);
      void this.page(page, false);
    }
  }

  /** Reads what is in sight again, in place. */
  refresh(): void {
    if (this.loading.peek()) return;
    const [first, last] = this.seen;
    const from = Math.floor(first / size);
    const to = Math.max(from, Math.floor((last - 1) / size));
    this.asked = new Set();
    for (let page = from; page <= to; page += 1) {
      this.asked.add(page);
      void this.page(page, false);
    }
  }

  close(): void {
    this.controller.abort();
  }

  private async page(page: number, fresh: boolean): Promise<void> {
    const { signal } = this.controller;
    try {
      const query = { ...this.query, limit: size, offset: page * size };
      const answer = await api.threads(query, signal);
      if (signal.aborted) return;
      const rows = fresh ? new Map<number, ThreadRow>() : new Map(this.rows.peek());
      answer.threads.forEach((row, index) => rows.set(page * size + index, row));
      this.rows.value = rows;
      this.total.value = answer.total;
      this.error.value = null;
    } catch (error) {
      if (aborted(error)) return;
      this.asked.delete(page);
      this.error.value = message(error);
    } finally {
      if (fresh && !signal.aborted) this.loading.value = false;
    }
  }
}

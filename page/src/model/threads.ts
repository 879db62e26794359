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
  /** Rows with counts and bytes, which are read for the threads in sight only. */
  private readonly sizes = signal<ReadonlyMap<string, ThreadRow>>(new Map());
  private measuring = 0;
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
    this.measure();
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
    clearTimeout(this.measuring);
    this.controller.abort();
  }

  sizeOf(row: ThreadRow | undefined): ThreadRow | undefined {
    return row && (row.bytes === null ? this.sizes.value.get(version(row)) : row);
  }

  /** Reads the sizes of the threads in sight once scrolling has come to rest. */
  private measure(): void {
    clearTimeout(this.measuring);
    this.measuring = window.setTimeout(async () => {
      const { signal } = this.controller;
      const [first, last] = this.seen;
      for (let index = first; index < last && !signal.aborted; index += 1) {
        const row = this.rows.peek().get(index);
        if (!row || row.bytes !== null || this.sizes.peek().has(version(row))) continue;
        if (index < this.seen[0] || index >= this.seen[1]) continue;
        try {
          const found = await api.thread(row.thread_id, signal);
          this.sizes.value = new Map(this.sizes.peek()).set(version(row), found);
        } catch {
          // The list is of use without.
        }
      }
    }, 120);
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
      this.measure();
    } catch (error) {
      if (aborted(error)) return;
      this.asked.delete(page);
      this.error.value = message(error);
    } finally {
      if (fresh && !signal.aborted) this.loading.value = false;
    }
  }
}

const version = (row: ThreadRow): string => `${row.updated_at} ${row.thread_id}`;

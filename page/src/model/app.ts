// What the whole page knows: the database, what may be done, what is open.

import { signal } from "@preact/signals";
import * as api from "../api/client";
import type { Info } from "../api/types";
import { message } from "./load";

export const info = signal<Info | null>(null);
export const failed = signal<string | null>(null);
export const helping = signal(false);

export async function connect(): Promise<void> {
  failed.value = null;
  try {
    info.value = await api.info();
  } catch (error) {
    failed.value = message(error);
  }
}

/** Whether runs can be started from this page. */
export const canRun = (): boolean => Boolean(info.value?.write && info.value.graphs.length);

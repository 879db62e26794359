// The routes of the server, one function each.

import { asJson, get, post, type Query, route, send, withQuery } from "./http";
import { events, type ServerEvent } from "./sse";
import type {
  Blame,
  Change,
  GraphDrawing,
  Info,
  Json,
  LogEntry,
  Path,
  StateView,
  Stats,
  StoreItem,
  ThreadRow,
} from "./types";

export const info = () => get<Info>("/milepost/info");

export const threads = (query: Query, signal?: AbortSignal) =>
  get<{ threads: ThreadRow[]; total: number }>("/milepost/threads", query, signal);

export const thread = (id: string, signal?: AbortSignal) =>
  get<ThreadRow>(route`/milepost/threads/${id}`, {}, signal);

export interface At {
  thread: string;
  namespace: string;
  checkpoint?: string | null;
}

export const log = (at: At, before: string | null, limit = 200) =>
  get<{ entries: LogEntry[]; more: boolean }>(route`/milepost/threads/${at.thread}/log`, {
    checkpoint_ns: at.namespace,
    limit,
    before,
  });

export const namespaces = (thread: string) =>
  get<{ namespaces: string[] }>(route`/milepost/threads/${thread}/namespaces`);

const place = (at: At): Query => ({ checkpoint_id: at.checkpoint, checkpoint_ns: at.namespace });

export const state = (at: At, path?: Path, limit?: number, signal?: AbortSignal) =>
  get<StateView>(
    route`/milepost/threads/${at.thread}/state`,
    { ...place(at), path: path && JSON.stringify(path), limit },
    signal,
  );

/** A value that was left out of a state for its size. */
export const part = async (at: At, path: Path) => (await state(at, path, 20_000_000)).values;

export const changes = (at: At, signal?: AbortSignal) =>
  get<{ changes: Change[] }>(route`/milepost/threads/${at.thread}/changes`, place(at), signal);

export const diff = (a: string, b: string, signal?: AbortSignal) =>
  get<{ changes: Change[] }>("/milepost/diff", { a, b }, signal);

export const blame = (at: At, path: Path, signal?: AbortSignal) =>
  get<{ parts: Blame[] }>(
    route`/milepost/threads/${at.thread}/blame`,
    { ...place(at), path: JSON.stringify(path) },
    signal,
  );

export const stats = (thread?: string) => get<Stats>("/milepost/stats", { thread_id: thread });

export const graph = (id: string) => get<GraphDrawing>(route`/milepost/graphs/${id}`);

/** Follows a thread: entries of its log after a checkpoint, and changes of its row. */
export const live = (at: At) =>
  new EventSource(
    withQuery(route`/milepost/threads/${at.thread}/live`, {
      checkpoint_ns: at.namespace,
      after: at.checkpoint,
    }),
  );

/** Ends the run that the server has started in a thread. */
export const cancel = (thread: string) =>
  post<{ cancelled: boolean }>(route`/milepost/threads/${thread}/cancel`, {});

export interface RunRequest {
  graph_id: string;
  input?: Json;
  resume?: Json;
  checkpoint_id?: string;
  update?: { values: Json; as_node?: string };
}

export async function* run(
  thread: string,
  request: RunRequest,
  signal: AbortSignal,
): AsyncGenerator<ServerEvent> {
  const path = withQuery(route`/milepost/threads/${thread}/run`);
  yield* events(await send(path, { ...asJson(request), signal }));
}

export interface Edit {
  values: Json;
  as_node?: string;
  checkpoint_id?: string;
}

export const edit = (thread: string, body: Edit) =>
  post<{ checkpoint: { checkpoint_id: string } }>(route`/threads/${thread}/state`, body);

/** All namespaces, as far as a reader would look through them. */
export async function storeNamespaces(): Promise<string[][]> {
  const found: string[][] = [];
  while (found.length < 10_000) {
    const query = { limit: 1000, offset: found.length };
    const { namespaces } = await post<{ namespaces: string[][] }>("/store/namespaces", query);
    found.push(...namespaces);
    if (namespaces.length < 1000) break;
  }
  return found;
}

export const storeItems = (
  prefix: string[],
  query: string,
  limit: number,
  offset: number,
  signal?: AbortSignal,
) =>
  post<{ items: StoreItem[] }>(
    "/store/items/search",
    { namespace_prefix: prefix, limit, offset, ...(query ? { query } : {}) },
    signal,
  );

// The address of the page, `#/thread/ID?at=CHECKPOINT&tab=changes`, so that a view can be linked.

import { computed, effect, signal } from "@preact/signals";

export interface Route {
  parts: string[];
  query: URLSearchParams;
}

function parse(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const parts = path.split("/").filter(Boolean).map(decode);
  return { parts, query: new URLSearchParams(query) };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a hand-written address
  }
}

export const current = signal<Route>(parse(location.hash));
export const view = computed(() => current.value.parts[0] ?? "threads");

/** The list of threads as it was filtered last. */
export const list = signal("#/threads");

addEventListener("hashchange", () => {
  current.value = parse(location.hash);
});

effect(() => {
  const { parts, query } = current.value;
  if (view.value === "threads") list.value = href(["threads"], Object.fromEntries(query));
  document.title = [parts[1] ?? view.value, "milepost"].join(" · ");
});

export function href(parts: string[], query: Record<string, string | null | undefined> = {}) {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) if (value) search.set(key, value);
  const text = search.toString();
  return `#/${parts.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

export function go(to: string): void {
  location.hash = to;
}

/** Changes parts of the query; `replace` leaves no entry in the browser's history. */
export function setQuery(changes: Record<string, string | null>, replace = true): void {
  const { parts, query } = current.value;
  const next = new URLSearchParams(query);
  for (const [key, value] of Object.entries(changes)) {
    if (value === null || value === "") next.delete(key);
    else next.set(key, value);
  }
  const to = href(parts, Object.fromEntries(next));
  if (to === location.hash) return;
  if (!replace) {
    go(to);
    return;
  }
  history.replaceState(null, "", to);
  current.value = { parts, query: next };
}

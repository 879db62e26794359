// The list of threads: search, filters, and a table that scrolls through thousands.

import { signal, useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { isObject, type Json, type JsonObject, type ThreadRow } from "../api/types";
import { ago, bytes, count, moment, ownerOf, owners, plain, plural } from "../model/format";
import { canRun } from "../model/app";
import { current, go, href, setQuery } from "../model/router";
import { ThreadList } from "../model/threads";
import { Icon } from "../ui/icons";
import { useKeys } from "../ui/keys";
import { Button, Empty, Failure, Skeleton, Status } from "../ui/parts";
import { VirtualList } from "../ui/virtual";

const statuses = [
  ["", "All"],
  ["running", "Running"],
  ["interrupted", "Waiting"],
  ["error", "Failed"],
  ["idle", "Idle"],
] as const;

const sorts = [
  ["updated_at.desc", "Last activity"],
  ["updated_at.asc", "Longest quiet"],
  ["created_at.desc", "Newest"],
  ["created_at.asc", "Oldest"],
  ["thread_id.asc", "Name"],
] as const;

export function ThreadsPage() {
  const list = useMemo(() => new ThreadList(), []);
  const chosen = useSignal(-1);
  const search = useRef<HTMLInputElement>(null);
  const { query } = current.value;
  const asked = filters(query);
  const key = JSON.stringify(asked);

  useEffect(() => {
    list.filter(asked);
    chosen.value = -1;
  }, [key]);
  useEffect(() => {
    const timer = setInterval(() => {
      if (!document.hidden) list.refresh();
    }, 5000);
    return () => {
      clearInterval(timer);
      list.close();
    };
  }, []);

  const total = list.total.value ?? 0;
  const move = (step: number) => {
    if (total) chosen.value = Math.max(0, Math.min(total - 1, chosen.peek() + step));
  };
  const open = (row: ThreadRow | undefined) => row && go(href(["thread", row.thread_id]));
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    ArrowDown: () => move(1),
    ArrowUp: () => move(-1),
    Enter: () => open(list.rows.peek().get(chosen.peek())),
    "/": () => search.current?.focus(),
    Escape: () => setQuery({ search: null, status: null, metadata: null, unfinished: null }),
  });

  return (
    <div class="threads">
      <h1 class="hidden">Threads</h1>
      <Filters search={search} />
      <div class="threads-head" aria-hidden="true">
        <span>Status</span>
        <span>Thread</span>
        <span class="col-owner">Owner</span>
        <span class="col-number">Checkpoints</span>
        <span class="col-number">Size</span>
        <span class="col-time">Last activity</span>
      </div>
      <Body list={list} chosen={chosen.value} filtered={isFiltered(query)} />
      <footer class="threads-foot" aria-live="polite">
        {list.total.value !== null && (
          <span>{isFiltered(query) ? `${plural(total, "thread")} found` : plural(total, "thread")}</span>
        )}
      </footer>
    </div>
  );
}

function Body({ list, chosen, filtered }: { list: ThreadList; chosen: number; filtered: boolean }) {
  const { rows } = list;
  const total = list.total.value;
  if (list.error.value && total === null) {
    return <Failure error={list.error.value} retry={() => list.filter({})} />;
  }
  if (total === null) return <Skeleton rows={12} />;
  if (total === 0) {
    return filtered ? (
      <Empty icon="search" title="No thread matches">
        <Button onClick={() => setQuery(cleared)}>Clear the filters</Button>
      </Empty>
    ) : (
      <Empty icon="inbox" title="No threads yet">
        Run a graph with a checkpointer on this database, and its threads appear here.
      </Empty>
    );
  }
  return (
    <>
      {list.error.value && <Failure error={list.error.value} />}
      <VirtualList
        class={`threads-list${list.loading.value ? " is-loading" : ""}`}
        label="Threads"
        count={total}
        height={narrow.value ? 56 : 46}
        show={chosen}
        seen={(first, last) => list.show(first, last)}
        row={(index) => (
          <Row
            key={index}
            row={rows.value.get(index)}
            size={list.sizeOf(rows.value.get(index))}
            chosen={index === chosen}
            index={index}
          />
        )}
      />
    </>
  );
}

interface RowProps {
  row: ThreadRow | undefined;
  size: ThreadRow | undefined;
  chosen: boolean;
  index: number;
}

function Row({ row, size, chosen, index }: RowProps) {
  if (!row) {
    return (
      <div class="thread-row" role="listitem">
        <span class="skeleton-row skeleton-1" />
      </div>
    );
  }
  const owner = ownerOf(row.metadata);
  return (
    <div class="thread-row" role="listitem" data-chosen={chosen || undefined} aria-posinset={index + 1}>
      <Status status={row.status} />
      <div class="thread-name">
        <a class="thread-link" href={href(["thread", row.thread_id])}>
          {plain(row.thread_id)}
        </a>
        <Chips metadata={row.metadata} />
      </div>
      <span class="col-owner">
        {owner && (
          <button
            type="button"
            class="owner"
            title={`Only threads of ${owner.name}`}
            onClick={() => addFilter(owner.key, owner.name)}
          >
            {owner.name}
          </button>
        )}
      </span>
      <span class="col-number">{size ? count(size.checkpoints) : ""}</span>
      <span class="col-number">{size ? bytes(size.bytes) : ""}</span>
      <time class="col-time" title={moment(row.updated_at)}>
        {ago(row.updated_at)}
      </time>
    </div>
  );
}

const quiet = new Set([...owners, "assistant_id"]);

/** The thread's metadata in short; a click filters by it. */
function Chips({ metadata }: { metadata: JsonObject }) {
  const shown = Object.entries(metadata ?? {}).filter(
    ([key, value]) => !quiet.has(key) && !isObject(value) && !Array.isArray(value),
  );
  return (
    <span class="chips">
      {shown.slice(0, 3).map(([key, value]) => (
        <button
          key={key}
          type="button"
          class="chip"
          title={`Only threads with ${key} = ${String(value)}`}
          onClick={() => addFilter(key, value)}
        >
          <span class="chip-key">{key}</span> {String(value)}
        </button>
      ))}
    </span>
  );
}

function Filters({ search }: { search: { current: HTMLInputElement | null } }) {
  const { query } = current.value;
  const timer = useRef(0);
  const typed = (text: string) => {
    clearTimeout(timer.current);
    timer.current = window.setTimeout(() => setQuery({ search: text }), 200);
  };
  const asked = query.get("search") ?? "";
  useEffect(() => {
    const box = search.current;
    if (box && document.activeElement !== box) box.value = asked;
  }, [asked]);
  return (
    <div class="filters" role="search">
      <label class="search">
        <Icon name="search" />
        <input
          ref={search}
          type="search"
          placeholder="Search threads"
          aria-label="Search threads"
          defaultValue={asked}
          onInput={(event) => typed(event.currentTarget.value)}
        />
        <kbd>/</kbd>
      </label>
      <div class="segments" role="group" aria-label="Status">
        {statuses.map(([id, name]) => (
          <button
            key={id}
            type="button"
            class="segment"
            aria-pressed={(query.get("status") ?? "") === id}
            onClick={() => setQuery({ status: id })}
          >
            {name}
          </button>
        ))}
      </div>
      <label class="check">
        <input
          type="checkbox"
          checked={query.get("unfinished") === "true"}
          onChange={(event) =>
            setQuery({ unfinished: event.currentTarget.checked ? "true" : null })
          }
        />
        Unfinished
      </label>
      <MetadataFilter />
      {canRun() && (
        <Button icon="play" onClick={() => go(href(["thread", crypto.randomUUID()], { new: "1" }))}>
          New thread
        </Button>
      )}
      <label class="sort">
        <span class="hidden">Sort by</span>
        <select
          value={query.get("sort") ?? sorts[0][0]}
          onChange={(event) => setQuery({ sort: event.currentTarget.value })}
        >
          {sorts.map(([id, name]) => (
            <option key={id} value={id}>
              {name}
            </option>
          ))}
        </select>
      </label>
    </div>
  );
}

function MetadataFilter() {
  const metadata = metadataOf(current.value.query);
  const submit = (event: Event) => {
    event.preventDefault();
    const box = (event.currentTarget as HTMLFormElement).elements[0] as HTMLInputElement;
    const [, key, value] = /^\s*([^=\s]+)\s*=\s*(.*?)\s*$/s.exec(box.value) ?? [];
    if (key === undefined || value === undefined) {
      box.setCustomValidity("Write key=value, as in owner=u-17");
      box.reportValidity();
      return;
    }
    addFilter(key, guess(value));
    box.value = "";
  };
  return (
    <div class="metadata-filter">
      {Object.entries(metadata).map(([key, value]) => (
        <span key={key} class="chip chip-on">
          <span class="chip-key">{key}</span> {String(value)}
          <button
            type="button"
            class="chip-close"
            aria-label={`Remove the filter ${key}`}
            onClick={() => removeFilter(key)}
          >
            <Icon name="close" size={10} />
          </button>
        </span>
      ))}
      <form onSubmit={submit}>
        <input
          class="metadata-input"
          placeholder="Filter: owner=u-17"
          aria-label="Filter by metadata: key=value"
          onInput={(event) => event.currentTarget.setCustomValidity("")}
        />
      </form>
    </div>
  );
}

const narrowly = matchMedia("(max-width: 720px)");
const narrow = signal(narrowly.matches);
narrowly.addEventListener("change", (event) => {
  narrow.value = event.matches;
});

const cleared = { search: null, status: null, metadata: null, unfinished: null };

const isFiltered = (query: URLSearchParams) => Object.keys(cleared).some((key) => query.get(key));

/** `3`, `true` and `{"a": 1}` are JSON; anything else is a text. */
function guess(text: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return text;
  }
}

function metadataOf(query: URLSearchParams): JsonObject {
  try {
    const value: unknown = JSON.parse(query.get("metadata") ?? "{}");
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}

function addFilter(key: string, value: Json): void {
  const metadata = { ...metadataOf(current.peek().query), [key]: value };
  setQuery({ metadata: JSON.stringify(metadata) });
}

function removeFilter(key: string): void {
  const { [key]: _, ...rest } = metadataOf(current.peek().query);
  setQuery({ metadata: Object.keys(rest).length ? JSON.stringify(rest) : null });
}

function filters(query: URLSearchParams) {
  const [sort, order] = (query.get("sort") ?? sorts[0][0]).split(".");
  return {
    search: query.get("search"),
    status: query.get("status"),
    unfinished: query.get("unfinished"),
    metadata: query.get("metadata"),
    sort: sort ?? "updated_at",
    order: order ?? "desc",
  };
}

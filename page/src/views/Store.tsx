// The Store: namespaces on the left, their items, and what an item holds.

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import * as api from "../api/client";
import type { StoreItem } from "../api/types";
import { ago, count, moment, plain, plural } from "../model/format";
import { useLoad } from "../model/load";
import { current, go, setQuery } from "../model/router";
import { Icon } from "../ui/icons";
import { useKeys } from "../ui/keys";
import { Button, Copy, Empty, Failure, Skeleton } from "../ui/parts";
import { opened, ValueTree } from "../ui/Value";

const size = 100;
const most = 1000;
const open = opened();
const separator = "\u001f";

export function StorePage() {
  const { query } = current.value;
  const prefix = (query.get("ns") ?? "").split(separator).filter(Boolean);
  const search = useRef<HTMLInputElement>(null);
  const found = useLoad("", api.storeNamespaces);
  useKeys({
    "/": () => search.current?.focus(),
    Escape: () => (query.get("item") ? setQuery({ item: null }) : go("#/threads")),
  });
  if (found.status === "failed") return <Failure error={found.error} retry={found.reload} />;
  if (!found.value) return <Skeleton rows={8} />;
  if (!found.value.length) {
    return (
      <Empty icon="inbox" title="The store is empty">
        What nodes put into a store on this database appears here.
      </Empty>
    );
  }
  return (
    <div class="store" data-item={query.get("item") ? "" : undefined}>
      <h1 class="hidden">Store</h1>
      <Namespaces all={found.value} prefix={prefix} />
      <Items prefix={prefix} search={search} />
    </div>
  );
}

function Namespaces({ all, prefix }: { all: string[][]; prefix: string[] }) {
  const here = prefix.join(separator);
  const choose = (namespace: string[]) => setQuery({ ns: namespace.join(separator), item: null });
  return (
    <nav class="store-namespaces" aria-label="Namespaces">
      <h2 class="pane-title">Namespaces</h2>
      <ul>
        <li>
          <button
            type="button"
            class="store-namespace"
            aria-current={here === "" || undefined}
            onClick={() => choose([])}
          >
            All
          </button>
        </li>
        {branches(all).map((namespace) => {
          const key = namespace.join(separator);
          return (
            <li key={key}>
              <button
                type="button"
                class="store-namespace"
                style={{ paddingInlineStart: `${namespace.length * 14 - 4}px` }}
                title={namespace.join(" › ")}
                aria-current={here === key || undefined}
                onClick={() => choose(namespace)}
              >
                {plain(namespace.at(-1) ?? "")}
              </button>
            </li>
          );
        })}
      </ul>
    </nav>
  );
}

/** Every namespace and what it is in, as a tree reads. */
function branches(all: string[][]): string[][] {
  const known = new Map<string, string[]>();
  for (const namespace of all) {
    namespace.forEach((_, index) => {
      const part = namespace.slice(0, index + 1);
      known.set(part.join(separator), part);
    });
  }
  return [...known].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, part]) => part);
}

interface ItemsProps {
  prefix: string[];
  search: { current: HTMLInputElement | null };
}

function Items({ prefix, search }: ItemsProps) {
  const { query } = current.value;
  const words = query.get("q") ?? "";
  const pages = useSignal(1);
  const timer = useRef(0);
  const place = JSON.stringify([prefix, words]);
  useEffect(() => {
    pages.value = 1;
  }, [place]);
  const limit = words ? most : pages.value * size;
  const found = useLoad(`${place} ${limit}`, async (signal) => {
    const items: StoreItem[] = [];
    while (items.length < limit) {
      const asked = Math.min(most, limit - items.length);
      const part = (await api.storeItems(prefix, words, asked, items.length, signal)).items;
      items.push(...part);
      if (part.length < asked) break;
    }
    // A store without an index of meanings leaves the words to its reader.
    const ranked = items.some((item) => typeof item.score === "number");
    if (ranked || !words) return { items, among: "" };
    return {
      items: items.filter((item) => mentions(item, words)),
      among: items.length === most ? ` among the ${count(most)} that were changed last` : "",
    };
  });
  const shown = found.value?.items ?? [];
  const among = found.value?.among ?? "";
  const chosen = shown.find((item) => keyOf(item) === query.get("item"));
  return (
    <>
      <section class="store-items" aria-label="Items">
        <label class="search">
          <Icon name="search" />
          <input
            ref={search}
            type="search"
            placeholder="Search items"
            aria-label="Search items"
            defaultValue={words}
            onInput={(event) => {
              const text = event.currentTarget.value;
              clearTimeout(timer.current);
              timer.current = window.setTimeout(() => setQuery({ q: text }), 250);
            }}
          />
          <kbd>/</kbd>
        </label>
        {found.status === "failed" ? (
          <Failure error={found.error} retry={found.reload} />
        ) : !found.value ? (
          <Skeleton rows={8} />
        ) : shown.length ? (
          <ul class="store-list">
            {shown.map((item) => (
              <ItemRow key={keyOf(item)} item={item} chosen={item === chosen} prefix={prefix} />
            ))}
            {!words && shown.length === pages.value * size && (
              <li>
                <Button
                  onClick={() => {
                    pages.value += 1;
                  }}
                >
                  Show more
                </Button>
              </li>
            )}
          </ul>
        ) : (
          <Empty icon="search" title={words ? `No item matches${among}` : "No items here"} />
        )}
        {found.value && (
          <p class="store-count">
            {plural(shown.length, "item")} {words ? "found" : "shown"}
            {among}
          </p>
        )}
      </section>
      <section class="store-item" aria-label="Item">
        {chosen ? (
          <Item item={chosen} />
        ) : (
          <Empty icon="inbox" title="Choose an item to see what it holds" />
        )}
      </section>
    </>
  );
}

/** Whether an item has all the words, in its key, its namespace or its value. */
function mentions(item: StoreItem, words: string): boolean {
  const text = JSON.stringify([item.namespace, item.key, item.value]).toLowerCase();
  return words
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}

const keyOf = (item: StoreItem) => [...item.namespace, item.key].join(separator);

function ItemRow({ item, chosen, prefix }: { item: StoreItem; chosen: boolean; prefix: string[] }) {
  const below = item.namespace.slice(prefix.length);
  return (
    <li>
      <button
        type="button"
        class="store-row"
        aria-current={chosen || undefined}
        onClick={() => setQuery({ item: keyOf(item) })}
      >
        <span class="store-key">{plain(item.key)}</span>
        <time class="store-time" title={moment(item.updated_at)}>
          {typeof item.score === "number" ? item.score.toFixed(3) : ago(item.updated_at)}
        </time>
        <span class="store-preview">
          {below.length > 0 && <span class="store-below">{plain(below.join(" › "))}</span>}
          {preview(item)}
        </span>
      </button>
    </li>
  );
}

function preview(item: StoreItem): string {
  const text = JSON.stringify(item.value);
  return text.length > 140 ? `${text.slice(0, 139)}…` : text;
}

function Item({ item }: { item: StoreItem }) {
  return (
    <>
      <header class="item-head">
        <button type="button" class="linkish item-back" onClick={() => setQuery({ item: null })}>
          Back to the items
        </button>
        <p class="eyebrow">{plain(item.namespace.join(" › "))}</p>
        <h2>
          {plain(item.key)} <Copy text={JSON.stringify(item.value, null, 2)} label="Copy the value" />
        </h2>
        <p class="facts">
          <span>created {moment(item.created_at)}</span>
          <span>updated {moment(item.updated_at)}</span>
        </p>
      </header>
      <ValueTree value={item.value} context={{ open }} />
    </>
  );
}

// A thread: the timeline, what the chosen checkpoint holds, and the graph beside them.

import { useComputed, useSignal, useSignalEffect } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import type { LogEntry } from "../api/types";
import { fromLog, index, marks } from "../graph/derive";
import { GraphView } from "../graph/GraphView";
import { info } from "../model/app";
import { bytes, namespaceText, ownerOf, plain, plural } from "../model/format";
import { current, go, list, setQuery } from "../model/router";
import { Thread } from "../model/thread";
import { Dialog } from "../ui/dialog";
import { Icon } from "../ui/icons";
import { useKeys } from "../ui/keys";
import { Button, Copy, Empty, Failure, Skeleton, Status, Tabs } from "../ui/parts";
import { Composer } from "./Composer";
import { Detail } from "./Detail";
import { Timeline } from "./Timeline";
import { Session } from "./session";

type Pane = "timeline" | "detail" | "graph";

export function ThreadPage({ id }: { id: string }) {
  const namespace = current.value.query.get("ns") ?? "";
  const thread = useMemo(() => new Thread(id, namespace), [id, namespace]);
  const session = useMemo(() => new Session(thread), [thread]);
  useEffect(() => {
    if (!current.peek().query.has("new")) void thread.open();
    return () => {
      session.close();
      thread.close();
    };
  }, [thread]);
  return <Opened key={namespace} session={session} />;
}

function Opened({ session }: { session: Session }) {
  const { thread } = session;
  const pane = useSignal<Pane>("timeline");
  const entries = thread.entries.value;
  const at = current.value.query.get("at");
  const isNew = current.value.query.has("new");
  const chosen = at ?? entries[0]?.checkpoint_id ?? null;
  const position = entries.findIndex((entry) => entry.checkpoint_id === chosen);
  const entry = entries[position];
  const select = (next: LogEntry | undefined) => {
    if (!next) return;
    const newest = entries[0]?.checkpoint_id === next.checkpoint_id;
    setQuery({ at: newest ? null : next.checkpoint_id });
  };
  useOlderUntilFound(session, at);
  useKeys({
    j: () => select(entries[position + 1]),
    k: () => select(entries[position - 1]),
    p: () => select(entries.find((each) => each.checkpoint_id === entry?.parent_id)),
    g: () => setQuery({ at: null }),
    s: () => setQuery({ tab: null }),
    m: () => setQuery({ tab: "messages" }),
    d: () => setQuery({ tab: "changes" }),
    c: () => chosen && setQuery({ tab: "compare", vs: chosen }),
    Escape: () => {
      if (current.peek().query.get("vs")) setQuery({ vs: null, tab: null });
      else go(list.value);
    },
  });
  return (
    <div class="thread" data-pane={pane.value}>
      <Head session={session} />
      <div class="pane-switch">
        <Tabs
          label="Parts of the thread"
          chosen={pane.value}
          choose={(next) => {
            pane.value = next;
          }}
          tabs={[
            { id: "timeline", name: "Timeline", note: entries.length || null },
            { id: "detail", name: "Checkpoint" },
            { id: "graph", name: "Graph" },
          ]}
        />
      </div>
      {isNew && !entries.length && session.canWrite.value ? (
        <NewThread session={session} />
      ) : thread.error.value && !entries.length ? (
        <Failure error={thread.error.value} retry={() => void thread.open()} />
      ) : (
        <div class="panes">
          <section class="pane pane-timeline" aria-label="Timeline">
            {!entries.length && thread.loading.value ? (
              <Skeleton rows={10} />
            ) : entries.length ? (
              <Timeline
                session={session}
                chosen={chosen}
                move={select}
                choose={(next) => {
                  select(next);
                  pane.value = "detail";
                }}
              />
            ) : (
              <Empty icon="inbox" title="No checkpoints here" />
            )}
          </section>
          <section class="pane pane-detail" aria-label="Checkpoint">
            {entry ? (
              <Detail session={session} entry={entry} select={select} />
            ) : (
              !thread.loading.value &&
              at && (
                <Empty icon="search" title="This checkpoint is not in the thread">
                  <a href="#/threads">See the threads</a>
                </Empty>
              )
            )}
          </section>
          <section class="pane pane-graph" aria-label="Graph">
            {entry && <Graph session={session} entry={entry} />}
          </section>
        </div>
      )}
    </div>
  );
}

/** A thread that is made by its first run. */
function NewThread({ session }: { session: Session }) {
  return (
    <div class="new-thread">
      <Empty icon="play" title="A new thread">
        It is there as soon as its first input runs.
      </Empty>
      <Composer session={session} />
    </div>
  );
}

/** A linked checkpoint may be older than what is loaded: reads on until it is there. */
function useOlderUntilFound(session: Session, at: string | null): void {
  const { thread } = session;
  useSignalEffect(() => {
    const entries = thread.entries.value;
    if (!at || !thread.more.value || entries.some((entry) => entry.checkpoint_id === at)) return;
    void thread.older();
  });
}

function Head({ session }: { session: Session }) {
  const { thread } = session;
  const row = thread.row.value;
  const namespaces = thread.namespaces.value;
  const owner = row && ownerOf(row.metadata)?.name;
  const counts = thread.counted.value;
  return (
    <header class="thread-head">
      <a class="back" href={list.value} aria-label="All threads">
        <Icon name="left" />
      </a>
      <h1 class="thread-title" title={thread.id}>
        {plain(thread.id)}
      </h1>
      <Copy text={thread.id} label="Copy the thread's id" />
      {(row || session.running.value) && <Status status={session.status.value} />}
      <span class="thread-facts">
        {owner && <span>{owner}</span>}
        {typeof counts?.checkpoints === "number" && (
          <span>{plural(counts.checkpoints, "checkpoint")}</span>
        )}
        {typeof counts?.bytes === "number" && <span>{bytes(counts.bytes)}</span>}
      </span>
      <span class="thread-head-right">
        {thread.live.value && (
          <span class="live" title="New checkpoints appear as they are saved">
            live
          </span>
        )}
        {namespaces.length > 1 && (
          <label class="namespace">
            <Icon name="layers" />
            <span class="hidden">Namespace</span>
            <select
              value={thread.namespace}
              onChange={(event) =>
                setQuery({ ns: event.currentTarget.value, at: null, vs: null }, false)
              }
            >
              {namespaces.map((each) => (
                <option key={each} value={each}>
                  {optionText(each, namespaces)}
                </option>
              ))}
            </select>
          </label>
        )}
        <GraphChoice session={session} />
      </span>
    </header>
  );
}

/** The names of the nodes; with the end of the task's id where two namespaces read alike. */
function optionText(namespace: string, all: string[]): string {
  const text = namespaceText(namespace);
  const alike = all.filter((each) => namespaceText(each) === text).length > 1;
  return alike ? `${text} · ${namespace.slice(-6)}` : text;
}

function GraphChoice({ session }: { session: Session }) {
  const graphs = info.value?.graphs ?? [];
  if (graphs.length < 2) return null;
  return (
    <label class="namespace">
      <Icon name="fork" />
      <span class="hidden">Graph</span>
      <select
        value={session.graph.value ?? ""}
        onChange={(event) => {
          session.chosenGraph.value = event.currentTarget.value;
        }}
      >
        {session.graph.value === null && <option value="">Choose a graph</option>}
        {graphs.map((graph) => (
          <option key={graph.graph_id} value={graph.graph_id}>
            {graph.name || graph.graph_id}
          </option>
        ))}
      </select>
    </label>
  );
}

function Graph({ session, entry }: { session: Session; entry: LogEntry }) {
  const { thread } = session;
  const given = thread.namespace ? null : session.drawing.value;
  const known = useComputed(() => index(thread.entries.value));
  const derived = useComputed(() => fromLog(thread.entries.value));
  const newest = thread.entries.value[0]?.checkpoint_id === entry.checkpoint_id;
  const large = useSignal(false);
  // Drawing what ran, and a moment later all of it, would jump.
  if (!session.known.value && !thread.namespace) {
    return (
      <div class="graph-head">
        <h2 class="pane-title">Graph</h2>
      </div>
    );
  }
  const drawn = (
    <GraphView
      graph={given ?? derived.value}
      derived={!given && !thread.namespace}
      marks={marks(entry, known.value)}
      busy={newest && session.status.value === "busy"}
    />
  );
  const enlarge = (on: boolean) => () => {
    large.value = on;
  };
  return (
    <>
      <div class="graph-head">
        <h2 class="pane-title">Graph</h2>
        <Button kind="ghost" icon="expand" label="Enlarge the graph" onClick={enlarge(true)} />
      </div>
      {drawn}
      {large.value && (
        <Dialog title="Graph" close={enlarge(false)} class="graph-large">
          {drawn}
        </Dialog>
      )}
    </>
  );
}

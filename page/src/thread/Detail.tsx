// The chosen checkpoint: what it is, what it asks, what it holds.

import { useSignal } from "@preact/signals";
import * as api from "../api/client";
import type { LogEntry, StateView, Task } from "../api/types";
import { index, ranAt } from "../graph/derive";
import { counted, moment, refText, shortId } from "../model/format";
import { type Loaded, useLoad } from "../model/load";
import { chats } from "../model/messages";
import { current, setQuery } from "../model/router";
import { Icon } from "../ui/icons";
import { Button, Copy, Failure, Skeleton, Tabs } from "../ui/parts";
import { BlameNote } from "./BlameNote";
import { Changes } from "./Changes";
import { ChatView } from "./Chat";
import { Compare } from "./Compare";
import { Composer } from "./Composer";
import { Failed } from "./Failed";
import { ForkDialog } from "./ForkDialog";
import { Question } from "./Question";
import type { Session } from "./session";
import { StateTree } from "./StateTree";
import { headline } from "./Timeline";

type Tab = "state" | "messages" | "changes" | "compare" | "about";
const tabs = ["state", "messages", "changes", "compare", "about"];

interface Props {
  session: Session;
  entry: LogEntry;
  select: (entry: LogEntry | undefined) => void;
}

export function Detail({ session, entry, select }: Props) {
  const { thread } = session;
  const { query } = current.value;
  const asked = query.get("tab") ?? "state";
  const tab = (tabs.includes(asked) ? asked : "state") as Tab;
  const at = thread.at(entry.checkpoint_id);
  // A checkpoint's tasks change until the next one is saved.
  const key = `${entry.checkpoint_id} ${entry.tasks.map((task) => `${task.error} ${task.interrupts.length}`).join()}`;
  const state = useLoad(key, (signal) => api.state(at, undefined, undefined, signal));
  const changes = useLoad(key, async (signal) => (await api.changes(at, signal)).changes);
  const shown = state.value?.checkpoint_id === entry.checkpoint_id ? state.value : null;
  const talks = shown ? chats(shown.values) : [];
  const spoken = talks.reduce((sum, chat) => sum + chat.messages.length, 0);
  const newest = thread.entries.value[0]?.checkpoint_id === entry.checkpoint_id;
  return (
    <>
      <div class="detail-scroll">
        <Title session={session} entry={entry} select={select} />
        {entry.problem && (
          <div class="note note-failed" role="group" aria-label="Damaged">
            <p class="note-title">
              <Icon name="alert" /> This checkpoint cannot be read
            </p>
            <pre class="note-text">{entry.problem}</pre>
          </div>
        )}
        {entry.tasks.map((task) => (
          <TaskNotes key={task.id} task={task} session={session} newest={newest} entry={entry} />
        ))}
        <div class="detail-tabs">
          <Tabs
            label="What to see of the checkpoint"
            chosen={tab}
            choose={(next) => setQuery({ tab: next === "state" ? null : next })}
            tabs={[
              { id: "state", name: "State" },
              { id: "messages", name: "Messages", note: spoken || null },
              {
                id: "changes",
                name: "Changes",
                note: changes.status === "ready" ? changes.value.length : null,
              },
              { id: "compare", name: "Compare" },
              { id: "about", name: "About" },
            ]}
          />
        </div>
        <div class="detail-body" role="tabpanel" aria-label={tab}>
          {tab === "state" && (
            <WithState state={state}>
              {(view) => (
                <StateTree
                  session={session}
                  entry={entry}
                  values={view.values}
                  at={thread.at(view.checkpoint_id)}
                  changes={changes.value ?? []}
                />
              )}
            </WithState>
          )}
          {tab === "messages" && (
            <WithState state={state}>
              {(view) => (
                <ChatView
                  id={view.checkpoint_id}
                  values={view.values}
                  changes={changes.value ?? []}
                  load={(path) => api.part(thread.at(view.checkpoint_id), path)}
                />
              )}
            </WithState>
          )}
          {tab === "changes" && (
            <Changes
              changes={changes}
              none={entry.parent_id ? "Nothing changed in this step" : "The first checkpoint"}
            />
          )}
          {tab === "compare" && <Compare session={session} entry={entry} />}
          {tab === "about" && <About entry={entry} state={state} />}
        </div>
      </div>
      {session.canWrite.value && <Composer session={session} />}
      {session.forking.value && <ForkDialog session={session} {...session.forking.value} />}
      {session.blaming.value && <BlameNote session={session} select={select} />}
    </>
  );
}

function WithState({
  state,
  children,
}: {
  state: Loaded<StateView> & { reload: () => void };
  children: (view: StateView) => preact.ComponentChildren;
}) {
  if (state.status === "failed") return <Failure error={state.error} retry={state.reload} />;
  return state.value ? <>{children(state.value)}</> : <Skeleton rows={8} />;
}

function Title({ session, entry, select }: Props) {
  const { thread } = session;
  const entries = thread.entries.value;
  const ran = ranAt(entry, index(entries));
  const parent = entries.find((each) => each.checkpoint_id === entry.parent_id);
  const children = entries.filter((each) => each.parent_id === entry.checkpoint_id);
  const replay = () =>
    void session.start(`Replay from step ${entry.step ?? "?"}`, {
      input: null,
      checkpoint_id: entry.checkpoint_id,
    });
  return (
    <div class="detail-head">
        <p class="eyebrow">
          Step {entry.step ?? "?"} · {entry.source ?? "checkpoint"}
        </p>
        <h2>{headline(entry, ran)}</h2>
        <p class="facts">
          <code title={entry.checkpoint_id}>{shortId(entry.checkpoint_id)}</code>
          <Copy text={refText(thread.at(entry.checkpoint_id))} label="Copy THREAD@CHECKPOINT" />
          <time>{moment(entry.created_at)}</time>
          {parent && (
            <button type="button" class="linkish" onClick={() => select(parent)}>
              from step {parent.step ?? "?"}
            </button>
          )}
          {children.length > 1 && <span>{children.length} branches start here</span>}
        </p>
        <div class="detail-foot">
        <p class="flow">
          {entry.next.length ? (
            <>
              <span class="flow-word">Next</span>
              {counted(entry.next).map((name) => (
                <span key={name} class="node-name">
                  {name}
                </span>
              ))}
            </>
          ) : (
            <span class="flow-word">Nothing runs next</span>
          )}
        </p>
      <div class="detail-actions">
        <Button
          icon="compare"
          title="Compare other checkpoints with this one (c)"
          onClick={() => setQuery({ tab: "compare", vs: entry.checkpoint_id })}
        >
          Compare
        </Button>
        {session.canWrite.value && (
          <>
            <Button
              icon="fork"
              onClick={() => {
                session.forking.value = { entry, keys: [] };
              }}
            >
              Edit and fork
            </Button>
            {entry.next.length > 0 && (
              <Button icon="play" disabled={session.running.value} onClick={replay}>
                Replay
              </Button>
            )}
          </>
        )}
      </div>
      </div>
    </div>
  );
}

function TaskNotes({
  task,
  session,
  newest,
  entry,
}: {
  task: Task;
  session: Session;
  newest: boolean;
  entry: LogEntry;
}) {
  const inside = session.thread.namespaces.value.find((each) => {
    const own = session.thread.namespace;
    return each === `${own ? `${own}|` : ""}${task.name}:${task.id}`;
  });
  return (
    <>
      {task.error && <Failed task={task} />}
      {task.interrupts.filter((interrupt) => !interrupt.answered).map((interrupt) => (
        <Question
          key={interrupt.id}
          session={session}
          task={task}
          interrupt={interrupt}
          entry={entry}
          newest={newest}
        />
      ))}
      {inside && (
        <p class="inside">
          <button
            type="button"
            class="linkish"
            onClick={() => setQuery({ ns: inside, at: null, vs: null }, false)}
          >
            See what runs inside {task.name}
          </button>
        </p>
      )}
    </>
  );
}

function About({ entry, state }: { entry: LogEntry; state: Loaded<StateView> }) {
  const all = useSignal(false);
  const rows: [string, string][] = [
    ["Checkpoint", entry.checkpoint_id],
    ["Parent", entry.parent_id ?? "none"],
    ["Namespace", entry.namespace || "root"],
    ["Run", entry.run_id ?? "–"],
    ["Source", entry.source ?? "–"],
    ["Step", String(entry.step ?? "–")],
    ["Created", moment(entry.created_at)],
    ["Wrote", Object.entries(entry.writes ?? {}).map(([node, keys]) => `${node}: ${keys.join(", ")}`).join("; ") || "–"],
  ];
  const metadata = JSON.stringify(state.value?.metadata ?? {}, null, 2);
  const long = metadata.length > 4000 && !all.value;
  return (
    <>
      <dl class="about">
        {rows.map(([name, value]) => (
          <div key={name} class="about-row">
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      <h3 class="section-title">Metadata</h3>
      <pre class="code">{long ? `${metadata.slice(0, 4000)}…` : metadata}</pre>
      {long && (
        <Button
          onClick={() => {
            all.value = true;
          }}
        >
          Show all
        </Button>
      )}
    </>
  );
}

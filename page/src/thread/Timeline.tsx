// The checkpoints of a thread with its forks, drawn as `git log --graph` would.

import { useComputed } from "@preact/signals";
import type { LogEntry } from "../api/types";
import { asks, index, ranAt } from "../graph/derive";
import { ago, clock, moment, shortId } from "../model/format";
import { lanes, lineage, type Row } from "../model/lanes";
import { current } from "../model/router";
import { VirtualList } from "../ui/virtual";
import type { Session } from "./session";

const height = 50;
const step = 14;
const left = 14;
const most = 8;

interface Props {
  session: Session;
  chosen: string | null;
  /** A click, which also shows the checkpoint where there is room for one pane only. */
  choose: (entry: LogEntry) => void;
  /** A step with the keyboard. */
  move: (entry: LogEntry) => void;
}

const idOf = (entry: LogEntry) => `checkpoint-${entry.checkpoint_id}`;

function target(key: string, at: number, count: number): number | null {
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: count - 1 }[key];
  return to === undefined || to < 0 || to >= count ? null : to;
}

export function Timeline({ session, chosen, choose, move }: Props) {
  const { thread } = session;
  const entries = thread.entries.value;
  const known = useComputed(() => index(thread.entries.value));
  const drawn = useComputed(() => lanes(thread.entries.value));
  const line = lineage(entries, chosen);
  const position = entries.findIndex((entry) => entry.checkpoint_id === chosen);
  const against = current.value.query.get("vs");
  const width = left * 2 + (Math.min(drawn.value.width, most) - 1) * step;
  return (
    <VirtualList
      class="timeline"
      role="listbox"
      label="Checkpoints, newest first"
      count={entries.length}
      height={height}
      show={position}
      active={position < 0 ? undefined : idOf(entries[position]!)}
      onKey={(event) => {
        const to = target(event.key, position, entries.length);
        if (to === null) return;
        event.preventDefault();
        move(entries[to]!);
      }}
      seen={(_, last) => {
        if (last >= entries.length - 20) void thread.older();
      }}
      row={(at) => {
        const entry = entries[at]!;
        return (
          <Item
            key={entry.checkpoint_id}
            entry={entry}
            row={drawn.value.rows[at]!}
            width={width}
            ran={ranAt(entry, known.value)}
            chosen={entry.checkpoint_id === chosen}
            against={entry.checkpoint_id === against}
            line={line}
            fresh={thread.fresh.has(entry.checkpoint_id)}
            busy={at === 0 && session.status.value === "busy"}
            choose={() => choose(entry)}
          />
        );
      }}
    />
  );
}

interface ItemProps {
  entry: LogEntry;
  row: Row;
  width: number;
  ran: string[];
  chosen: boolean;
  against: boolean;
  line: Set<string>;
  fresh: boolean;
  busy: boolean;
  choose: () => void;
}

function Item(props: ItemProps) {
  const { entry, ran, chosen, line } = props;
  const failed = entry.tasks.some((task) => task.error);
  const waiting = entry.tasks.some(asks);
  const names = ["checkpoint"];
  if (!line.has(entry.checkpoint_id)) names.push("checkpoint-aside");
  if (props.fresh) names.push("checkpoint-fresh");
  const keys = [...new Set(Object.values(entry.writes ?? {}).flat())].filter(
    (key) => !key.startsWith("branch:") && !key.startsWith("__"),
  );
  return (
    <div
      id={idOf(entry)}
      class={names.join(" ")}
      role="option"
      aria-selected={chosen}
      data-checkpoint={entry.checkpoint_id}
      onClick={props.choose}
    >
      <Lanes {...props} state={failed ? "failed" : waiting ? "waiting" : ""} />
      <span class="checkpoint-text">
        <span class="checkpoint-top">
          <span class="checkpoint-name">{headline(entry, ran)}</span>
          {failed && <span class="flag flag-failed">failed</span>}
          {entry.problem && <span class="flag flag-failed">damaged</span>}
          {waiting && <span class="flag flag-waiting">waits</span>}
          {entry.tags.map((tag) => (
            <span key={tag} class="flag flag-tag">
              {tag}
            </span>
          ))}
          {props.against && <span class="flag flag-against">A</span>}
        </span>
        <span class="checkpoint-bottom">
          <span class="checkpoint-step">{entry.step ?? "–"}</span>
          <span class="checkpoint-keys">
            {keys.length ? keys.join(", ") : (entry.source ?? shortId(entry.checkpoint_id))}
          </span>
        </span>
      </span>
      <time class="checkpoint-time" title={`${moment(entry.created_at)} (${ago(entry.created_at)})`}>
        {clock(entry.created_at)}
      </time>
    </div>
  );
}

/** What made the checkpoint, in a word or two. */
export function headline(entry: LogEntry, ran: string[]): string {
  if (entry.source === "input") return "Input";
  if (entry.source === "fork") return "Fork";
  if (entry.source === "update") return ran.length ? `Edit as ${ran.join(", ")}` : "Edit";
  return ran.length ? ran.join(", ") : "Start";
}

const x = (lane: number) => left + Math.min(lane, most - 1) * step;

function Lanes({ row, entry, width, chosen, line, busy, state }: ItemProps & { state: string }) {
  const middle = height / 2;
  // Lines of the chosen checkpoint's past are drawn last, above the others.
  const lit = (child: string) => line.has(child);
  const segments = [...row.segments].sort((a, b) => Number(lit(a.child)) - Number(lit(b.child)));
  return (
    <svg class="lanes" width={width} height={height} aria-hidden="true">
      {segments.map((segment) => {
        const [from, to] = [x(segment.from), x(segment.to)];
        const d =
          segment.half === "bottom"
            ? `M${from} ${middle}V${height}`
            : from === to
              ? `M${from} 0V${middle}`
              : `M${from} 0C${from} ${middle * 0.7} ${to} ${middle * 0.3} ${to} ${middle}`;
        return (
          <path
            key={`${segment.half}${segment.from}`}
            class={`lane lane-${segment.branch % 6}${lit(segment.child) ? "" : " lane-aside"}`}
            d={d}
          />
        );
      })}
      {busy && <circle class="dot-pulse" cx={x(row.lane)} cy={middle} r={9} />}
      <circle
        class={`dot dot-${row.branch % 6} ${state ? `dot-${state}` : ""} ${chosen ? "dot-chosen" : ""} ${lit(entry.checkpoint_id) ? "" : "dot-aside"}`}
        cx={x(row.lane)}
        cy={middle}
        r={entry.source === "input" ? 4 : 5}
      />
    </svg>
  );
}


// Two checkpoints side by side: A stays, B is the chosen one.

import { useRef } from "preact/hooks";
import * as api from "../api/client";
import type { LogEntry } from "../api/types";
import { index, ranAt } from "../graph/derive";
import { refText, shortId } from "../model/format";
import { useLoad } from "../model/load";
import { current, setQuery } from "../model/router";
import { Button, Empty } from "../ui/parts";
import { Changes } from "./Changes";
import type { Session } from "./session";
import { headline } from "./Timeline";

export function Compare({ session, entry }: { session: Session; entry: LogEntry }) {
  const entries = session.thread.entries.value;
  const known = index(entries);
  const against = current.value.query.get("vs") ?? entry.parent_id;
  const base = against ? known.get(against) : undefined;
  const name = (each: LogEntry) => `Step ${each.step ?? "?"} · ${headline(each, ranAt(each, known))}`;
  return (
    <div class="compare">
      <div class="compare-sides">
        <label class="compare-side">
          <span class="compare-letter">A</span>
          <select
            aria-label="Compare from"
            value={against ?? ""}
            onChange={(event) => setQuery({ vs: event.currentTarget.value })}
          >
            {!base && <option value={against ?? ""}>{against || "Choose a checkpoint"}</option>}
            {entries.map((each) => (
              <option key={each.checkpoint_id} value={each.checkpoint_id}>
                {name(each)} · {shortId(each.checkpoint_id)}
              </option>
            ))}
          </select>
        </label>
        <div class="compare-side">
          <span class="compare-letter">B</span>
          <span class="compare-name">{name(entry)}</span>
        </div>
        <Button
          icon="swap"
          kind="ghost"
          label="Swap A and B"
          disabled={!base}
          onClick={() => setQuery({ at: against, vs: entry.checkpoint_id })}
        />
      </div>
      <OtherThread />
      {against ? (
        <Difference session={session} a={against} b={entry.checkpoint_id} />
      ) : (
        <Empty icon="compare" title="Choose what to compare with">
          Press c on a checkpoint, then step to another one.
        </Empty>
      )}
    </div>
  );
}

function Difference({ session, a, b }: { session: Session; a: string; b: string }) {
  const ref = (id: string) => (id.includes("@") ? id : refText(session.thread.at(id)));
  const found = useLoad(`${a} ${b}`, async (signal) => (await api.diff(ref(a), ref(b), signal)).changes);
  return <Changes changes={found} none="Both hold the same values" />;
}

/** A checkpoint of another thread, written as THREAD@CHECKPOINT. */
function OtherThread() {
  const box = useRef<HTMLInputElement>(null);
  const submit = (event: Event) => {
    event.preventDefault();
    const text = box.current!.value.trim();
    if (text) setQuery({ vs: text.includes("@") ? text : `${text}@~0` });
  };
  return (
    <form class="compare-other" onSubmit={submit}>
      <input
        ref={box}
        placeholder="Or another thread: THREAD@CHECKPOINT, THREAD@tag"
        aria-label="Compare with a checkpoint of another thread"
      />
    </form>
  );
}

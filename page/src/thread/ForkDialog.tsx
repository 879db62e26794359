// Edit the state at a checkpoint: the update becomes a new branch, and may run on from there.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import * as api from "../api/client";
import { isObject, type Json, type LogEntry } from "../api/types";
import { index, ranAt } from "../graph/derive";
import { message } from "../model/load";
import { Dialog } from "../ui/dialog";
import { Button } from "../ui/parts";
import { special } from "../ui/Value";
import type { Session } from "./session";

interface Props {
  session: Session;
  entry: LogEntry;
  keys: string[];
}

export function ForkDialog({ session, entry, keys }: Props) {
  const { thread } = session;
  const text = useSignal("{}");
  const node = useSignal("");
  const known = useSignal<string[]>([]);
  const error = useSignal<string | null>(null);
  const saving = useSignal(false);
  const at = thread.at(entry.checkpoint_id);

  /** Puts the present value of a key into the update. */
  const insert = async (names: string[]) => {
    try {
      const update = parse(text.peek());
      for (const name of names) update[name] = (await api.state(at, [name], 20_000_000)).values;
      text.value = JSON.stringify(update, null, 2);
      error.value = standIn(update);
    } catch (problem) {
      error.value = message(problem);
    }
  };
  useEffect(() => {
    api.state(at).then(
      ({ values }) => {
        if (isObject(values)) known.value = Object.keys(values);
      },
      (problem: unknown) => {
        error.value = message(problem);
      },
    );
    if (keys.length) void insert(keys);
  }, []);

  const close = () => {
    session.forking.value = null;
  };
  const save = async (run: boolean) => {
    let values: Json;
    try {
      values = parse(text.value);
      const problem = standIn(values);
      if (problem) throw new Error(problem);
    } catch (problem) {
      error.value = message(problem);
      return;
    }
    saving.value = true;
    try {
      if (run) {
        close();
        const update = { values, ...(node.value ? { as_node: node.value } : {}) };
        await session.start(`Fork at step ${entry.step ?? "?"}`, {
          input: null,
          checkpoint_id: entry.checkpoint_id,
          update,
        });
      } else {
        await session.fork(entry, values, node.value);
        close();
      }
    } catch (problem) {
      error.value = message(problem);
    } finally {
      saving.value = false;
    }
  };
  const entries = thread.entries.value;
  const nodes = new Set(entries.flatMap((each) => [...ranAt(each, index(entries)), ...each.next]));
  return (
    <Dialog title={`Fork at step ${entry.step ?? "?"}`} close={close} class="fork">
      <p class="dialog-text">
        The update goes through the reducers, as a node's would, and starts a new branch. The
        history of this one stays.
      </p>
      <div class="fork-keys">
        {known.value.map((name) => (
          <button key={name} type="button" class="chip" onClick={() => void insert([name])}>
            {name}
          </button>
        ))}
      </div>
      <textarea
        class="code-input"
        rows={12}
        spellcheck={false}
        aria-label="Update as JSON"
        value={text.value}
        onInput={(event) => {
          text.value = event.currentTarget.value;
          error.value = null;
        }}
      />
      <label class="field">
        As if written by
        <select
          value={node.value}
          onChange={(event) => {
            node.value = event.currentTarget.value;
          }}
        >
          <option value="">the node that ran last</option>
          {[...nodes].map((name) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </select>
      </label>
      {error.value && (
        <p class="field-error" role="alert">
          {error.value}
        </p>
      )}
      <footer class="dialog-foot">
        <Button disabled={saving.value} onClick={() => void save(false)}>
          Save the fork
        </Button>
        <Button
          kind="primary"
          icon="play"
          disabled={saving.value || session.running.value}
          onClick={() => void save(true)}
        >
          Fork and run
        </Button>
      </footer>
    </Dialog>
  );
}

function parse(text: string): { [key: string]: Json } {
  let value: unknown;
  try {
    value = JSON.parse(text || "{}");
  } catch (error) {
    throw new Error(`This is not JSON: ${message(error)}`);
  }
  if (!isObject(value)) throw new Error('The update is an object of keys, as {"key": value}.');
  return value;
}

/** What would be stored as an object, since it only stands for a value that JSON does not have. */
function standIn(value: Json, path = ""): string | null {
  if (!isObject(value) && !Array.isArray(value)) return null;
  const shown = isObject(value) ? special(value) : null;
  if (shown) {
    const what = shown.text || "too large to be shown";
    return `${path} is ${what}: JSON cannot say it. Leave it out here, and change it in Python.`;
  }
  for (const [key, member] of Object.entries(value)) {
    const found = standIn(member as Json, path ? `${path}.${key}` : key);
    if (found) return found;
  }
  return null;
}

// The state at a checkpoint, with what this step changed, who wrote a value, and how to edit it.

import { useMemo } from "preact/hooks";
import * as api from "../api/client";
import type { Change, Json, LogEntry, Path } from "../api/types";
import { pathText } from "../model/format";
import { Button } from "../ui/parts";
import { opened, ValueTree } from "../ui/Value";
import type { Session } from "./session";

/** Kept while the page is open: stepping through a thread leaves the same rows unfolded. */
const open = opened();

interface Props {
  session: Session;
  entry: LogEntry;
  values: Json;
  at: api.At;
  changes: Change[];
}

export function StateTree({ session, entry, values, at, changes }: Props) {
  const marked = useMemo(() => touched(changes), [changes]);
  const actions = (path: Path) => (
    <>
      <Button
        kind="ghost"
        icon="person"
        label={`Who wrote ${pathText(path)}`}
        onClick={() => {
          session.blaming.value = { checkpoint: entry.checkpoint_id, path };
        }}
      />
      {session.canWrite.value && path.length === 1 && (
        <Button
          kind="ghost"
          icon="edit"
          label={`Edit ${pathText(path)} and fork`}
          onClick={() => {
            session.forking.value = { entry, keys: [String(path[0])] };
          }}
        />
      )}
    </>
  );
  return (
    <ValueTree
      key={at.checkpoint ?? ""}
      value={values}
      context={{
        open,
        actions,
        mark: (path) => marked.get(JSON.stringify(path)) ?? "",
        load: (path) => api.part(at, path),
      }}
    />
  );
}

/** The class of each changed value and of what it is in. */
function touched(changes: Change[]): Map<string, string> {
  const marks = new Map<string, string>();
  for (const { path, kind } of changes) {
    for (let length = 1; length < path.length; length += 1) {
      const key = JSON.stringify(path.slice(0, length));
      if (!marks.has(key)) marks.set(key, "tree-inside");
    }
    marks.set(JSON.stringify(path), kind === "added" ? "tree-added" : "tree-changed");
  }
  return marks;
}

// Who wrote a value: the steps, nodes and runs, newest first.

import * as api from "../api/client";
import type { Blame, LogEntry } from "../api/types";
import { moment, pathText, shortId } from "../model/format";
import { useLoad } from "../model/load";
import { setQuery } from "../model/router";
import { Dialog } from "../ui/dialog";
import { Empty, Failure, Skeleton } from "../ui/parts";
import type { Session } from "./session";

interface Props {
  session: Session;
  select: (entry: LogEntry | undefined) => void;
}

export function BlameNote({ session, select }: Props) {
  const { checkpoint, path } = session.blaming.value!;
  const key = JSON.stringify([checkpoint, path]);
  const at = session.thread.at(checkpoint);
  const found = useLoad(key, async (signal) => (await api.blame(at, path, signal)).parts);
  const close = () => {
    session.blaming.value = null;
  };
  const open = (part: Blame) => {
    close();
    const entry = session.thread.entries
      .peek()
      .find((each) => each.checkpoint_id === part.checkpoint_id);
    if (entry) select(entry);
    else setQuery({ at: part.checkpoint_id });
  };
  return (
    <Dialog title={`Who wrote ${pathText(path)}`} close={close} class="blame">
      {found.status === "failed" ? (
        <Failure error={found.error} retry={found.reload} />
      ) : !found.value ? (
        <Skeleton rows={3} />
      ) : found.value.length ? (
        <ol class="blame-list">
          {found.value.map((part, index) => (
            <li key={index}>
              <button type="button" class="blame-part" onClick={() => open(part)}>
                <code class="blame-path">{pathText(part.path) || "value"}</code>
                <span class="blame-node">{part.nodes.join(", ") || "input"}</span>
                <span class="blame-facts">
                  step {part.step ?? "?"} · {shortId(part.checkpoint_id)} · {moment(part.created_at)}
                  {part.run_id && ` · run ${shortId(part.run_id)}`}
                </span>
              </button>
            </li>
          ))}
        </ol>
      ) : (
        <Empty icon="person" title="No checkpoint wrote this value" />
      )}
    </Dialog>
  );
}

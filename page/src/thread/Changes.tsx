// A list of changes: values before and after, long texts line by line.

import { useSignal } from "@preact/signals";
import { isObject, type Change, type Json } from "../api/types";
import { count, pathText } from "../model/format";
import type { Loaded } from "../model/load";
import { Button, Empty, Failure, Skeleton } from "../ui/parts";
import { opened, Text, ValueTree } from "../ui/Value";

const portion = 100;
const words = { added: "Added", removed: "Removed", changed: "Changed" } as const;

export function Changes({
  changes,
  none,
}: {
  changes: Loaded<Change[]> & { reload: () => void };
  none: string;
}) {
  const shown = useSignal(portion);
  if (changes.status === "failed") {
    return <Failure error={changes.error} retry={changes.reload} />;
  }
  if (!changes.value) return <Skeleton rows={6} />;
  if (!changes.value.length) return <Empty icon="check" title={none} />;
  const rest = changes.value.length - shown.value;
  return (
    <>
      <ol class="changes" data-loading={changes.status === "loading" || undefined}>
        {changes.value.slice(0, shown.value).map((change) => (
          <li key={JSON.stringify(change.path)} class={`change change-${change.kind}`}>
            <header class="change-head">
              <span class="change-kind">{words[change.kind]}</span>
              <code class="change-path">{pathText(change.path) || "the whole state"}</code>
            </header>
            <Body change={change} />
          </li>
        ))}
      </ol>
      {rest > 0 && (
        <Button
          onClick={() => {
            shown.value += portion;
          }}
        >
          Show {count(Math.min(rest, portion))} more of {count(rest)}
        </Button>
      )}
    </>
  );
}

function Body({ change }: { change: Change }) {
  if (change.lines?.length) return <Lines lines={change.lines} />;
  return (
    <div class="change-body">
      {change.kind !== "added" && <Side sign="−" name="before" value={change.before} />}
      {change.kind !== "removed" && <Side sign="+" name="after" value={change.after} />}
    </div>
  );
}

function Side({ sign, name, value }: { sign: string; name: string; value: Json }) {
  const open = useSignal<ReadonlyMap<string, boolean>>(opened().value);
  const nested = isObject(value) || (Array.isArray(value) && value.length > 0);
  return (
    <div class={`side side-${name}`}>
      <span class="side-sign" aria-label={name}>
        {sign}
      </span>
      {nested ? (
        <ValueTree value={value} context={{ open }} />
      ) : typeof value === "string" ? (
        <Text text={value} />
      ) : (
        <span class="tree-number">{JSON.stringify(value)}</span>
      )}
    </div>
  );
}

function Lines({ lines }: { lines: string[] }) {
  const shown = useSignal(200);
  const body = lines.filter((line) => !/^(---|\+\+\+)( |$)/.test(line));
  return (
    <div class="lines" role="group" aria-label="Difference by lines">
      {body.slice(0, shown.value).map((line, index) => (
        <span key={index} class={`line ${classOf(line)}`}>
          {line.replace(/\n$/, "") || " "}
        </span>
      ))}
      {body.length > shown.value && (
        <button
          type="button"
          class="linkish"
          onClick={() => {
            shown.value += 1000;
          }}
        >
          Show more lines ({count(body.length - shown.value)})
        </button>
      )}
    </div>
  );
}

function classOf(line: string): string {
  if (line.startsWith("+")) return "line-added";
  if (line.startsWith("-")) return "line-removed";
  return line.startsWith("@@") ? "line-place" : "";
}

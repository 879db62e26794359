// What takes how much room: by kind, by channel, by thread.

import * as api from "../api/client";
import { bytes, count, plain } from "../model/format";
import { useLoad } from "../model/load";
import { go, href } from "../model/router";
import { useKeys } from "../ui/keys";
import { Empty, Failure, Skeleton, Status } from "../ui/parts";

export function StatsPage() {
  const found = useLoad("", () => api.stats());
  useKeys({ Escape: () => go("#/threads") });
  if (found.status === "failed") return <Failure error={found.error} retry={found.reload} />;
  const stats = found.value;
  if (!stats) return <Skeleton rows={8} />;
  if (!stats.threads) return <Empty icon="inbox" title="No threads yet" />;
  return (
    <div class="stats">
      <h1>What is stored</h1>
      <dl class="numbers">
        <Figure name="Threads" value={count(stats.threads)} />
        <Figure name="Checkpoints" value={count(stats.checkpoints)} />
        <Figure name="Pending writes" value={count(stats.writes)} />
        <Figure name="Size" value={bytes(stats.bytes)} />
      </dl>
      <div class="stats-grid">
        <Shares title="By kind" parts={stats.kinds} />
        <Shares title="By channel" parts={stats.channels} />
        {stats.statuses && Object.keys(stats.statuses).length > 0 && (
          <section class="card">
            <h2>By status</h2>
            <ul class="stat-statuses">
              {Object.entries(stats.statuses).map(([status, number]) => (
                <li key={status}>
                  <Status status={status} />
                  <span class="col-number">{count(number)}</span>
                </li>
              ))}
            </ul>
          </section>
        )}
        {stats.largest?.length > 0 && (
          <section class="card">
            <h2>Largest threads</h2>
            <ul class="shares">
              {stats.largest.slice(0, 10).map((thread) => (
                <li key={thread.thread_id} class="share">
                  <a class="share-name" href={href(["thread", thread.thread_id])}>
                    {plain(thread.thread_id)}
                  </a>
                  <span class="share-value">{bytes(thread.bytes)}</span>
                  <Meter part={thread.bytes} whole={stats.largest[0]!.bytes} />
                </li>
              ))}
            </ul>
          </section>
        )}
      </div>
    </div>
  );
}

function Figure({ name, value }: { name: string; value: string }) {
  return (
    <div class="figure">
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}

function Shares({ title, parts }: { title: string; parts: Record<string, number> }) {
  const rows = Object.entries(parts ?? {}).sort(([, a], [, b]) => b - a);
  if (!rows.length) return null;
  const whole = rows[0]![1];
  return (
    <section class="card">
      <h2>{title}</h2>
      <ul class="shares">
        {rows.slice(0, 12).map(([name, size]) => (
          <li key={name} class="share">
            <span class="share-name">{name}</span>
            <span class="share-value">{bytes(size)}</span>
            <Meter part={size} whole={whole} />
          </li>
        ))}
      </ul>
    </section>
  );
}

function Meter({ part, whole }: { part: number; whole: number }) {
  const share = whole ? Math.max(0.5, (part / whole) * 100) : 0;
  return (
    <span class="meter" aria-hidden="true">
      <span class="meter-part" style={{ width: `${share}%` }} />
    </span>
  );
}

// Lanes for a list of checkpoints, newest first, as `git log --graph` draws them.

export interface Commit {
  checkpoint_id: string;
  parent_id: string | null;
}

/** A line in one row, between the lanes it joins; `top` and `bottom` are the row's halves. */
export interface Segment {
  half: "top" | "bottom";
  from: number;
  to: number;
  branch: number;
  /** The checkpoint whose line it is: the one that the line comes down from. */
  child: string;
}

export interface Row {
  lane: number;
  branch: number;
  segments: Segment[];
}

interface Line {
  parent: string;
  branch: number;
  child: string;
}

/** The lane, the branch and the lines of every row. A branch keeps its number down to its fork. */
export function lanes(commits: readonly Commit[]): { rows: Row[]; width: number } {
  const active: (Line | null)[] = [];
  const rows: Row[] = [];
  let branches = 0;
  let width = 1;
  for (const { checkpoint_id, parent_id } of commits) {
    const joining = active.flatMap((line, lane) => (line?.parent === checkpoint_id ? [lane] : []));
    const first = joining[0];
    const lane = first ?? free(active);
    const branch = first === undefined ? branches++ : active[first]!.branch;
    const segments: Segment[] = [];
    active.forEach((line, from) => {
      if (!line) return;
      const to = joining.includes(from) ? lane : from;
      segments.push({ half: "top", from, to, branch: line.branch, child: line.child });
    });
    for (const joined of joining) active[joined] = null;
    active[lane] = parent_id ? { parent: parent_id, branch, child: checkpoint_id } : null;
    active.forEach((line, at) => {
      if (!line) return;
      segments.push({ half: "bottom", from: at, to: at, branch: line.branch, child: line.child });
    });
    rows.push({ lane, branch, segments });
    width = Math.max(width, active.length);
  }
  return { rows, width };
}

function free(active: (Line | null)[]): number {
  const gap = active.indexOf(null);
  return gap === -1 ? active.length : gap;
}

/** The checkpoints that `id` comes from, itself included. */
export function lineage(commits: readonly Commit[], id: string | null): Set<string> {
  const parents = new Map(commits.map((each) => [each.checkpoint_id, each.parent_id]));
  const found = new Set<string>();
  for (let at = id; at && !found.has(at); at = parents.get(at) ?? null) found.add(at);
  return found;
}

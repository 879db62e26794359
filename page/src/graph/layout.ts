// A layered drawing of a graph, from the start at the top to the end at the bottom.

import type { GraphDrawing } from "../api/types";

export interface Box {
  id: string;
  kind: "start" | "end" | "node";
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Line {
  source: string;
  target: string;
  conditional: boolean;
  label: string | null;
  path: string;
  middle: [number, number];
}

export interface Drawing {
  boxes: Box[];
  lines: Line[];
  width: number;
  height: number;
}

const gap = { x: 20, y: 38 };
const boxHeight = 32;
const edgeOfLoop = 18;

type Edge = GraphDrawing["edges"][number];

const kindOf = (id: string): Box["kind"] =>
  id === "__start__" ? "start" : id === "__end__" ? "end" : "node";

export const title = (id: string): string =>
  id === "__start__" ? "start" : id === "__end__" ? "end" : id;

const widthOf = (id: string): number =>
  kindOf(id) === "node" ? Math.min(200, Math.max(64, 26 + shown(id).length * 7.2)) : 56;

/** A name short enough for its box. */
export function shown(id: string): string {
  const text = title(id);
  return text.length > 24 ? `${text.slice(0, 23)}…` : text;
}

export function layout(graph: GraphDrawing): Drawing {
  const ids = [...new Set(graph.nodes.map((node) => node.id))];
  const edges = graph.edges.filter((edge) => ids.includes(edge.source) && ids.includes(edge.target));
  const back = backEdges(ids, edges);
  const forward = edges.filter((edge) => !back.has(edge) && edge.source !== edge.target);
  const layers = inLayers(ids, forward);
  const { rows, chains } = withBends(layers, forward);
  untangle(rows, chains);
  return draw(rows, edges, chains, back);
}

/** Edges that close a loop, as a walk in depth from the start finds them. */
function backEdges(ids: string[], edges: Edge[]): Set<Edge> {
  const state = new Map<string, "open" | "done">();
  const back = new Set<Edge>();
  const out = Map.groupBy(edges, (edge) => edge.source);
  const visit = (id: string) => {
    state.set(id, "open");
    for (const edge of out.get(id) ?? []) {
      if (state.get(edge.target) === "open") back.add(edge);
      else if (!state.has(edge.target)) visit(edge.target);
    }
    state.set(id, "done");
  };
  const first = ids.filter((id) => kindOf(id) === "start");
  for (const id of [...first, ...ids]) if (!state.has(id)) visit(id);
  return back;
}

/** The layer of each node: one below the lowest of those that lead to it. */
function inLayers(ids: string[], edges: Edge[]): Map<string, number> {
  const into = Map.groupBy(edges, (edge) => edge.target);
  const layers = new Map<string, number>();
  const layer = (id: string): number => {
    const known = layers.get(id);
    if (known !== undefined) return known;
    const above = (into.get(id) ?? []).map((edge) => layer(edge.source) + 1);
    const at = Math.max(0, ...above);
    layers.set(id, at);
    return at;
  };
  ids.forEach(layer);
  const lowest = Math.max(0, ...layers.values());
  const start = layers.has("__start__") ? 1 : 0;
  for (const id of ids) {
    if (kindOf(id) === "end") {
      const others = ids.filter((each) => kindOf(each) !== "end").map((each) => layers.get(each)!);
      layers.set(id, Math.max(lowest, Math.max(-1, ...others) + 1));
    } else if (kindOf(id) === "node" && start && layers.get(id) === 0) layers.set(id, 1);
  }
  return layers;
}

interface Spot {
  id: string;
  width: number;
  x: number;
  bend: boolean;
}

type Chains = Map<Edge, Spot[]>;

/** Rows of spots; an edge that skips rows gets a bend in each of them. */
function withBends(layers: Map<string, number>, edges: Edge[]) {
  const rows: Spot[][] = [];
  const spots = new Map<string, Spot>();
  const place = (spot: Spot, layer: number) => {
    (rows[layer] ??= []).push(spot);
    return spot;
  };
  for (const [id, layer] of layers) {
    spots.set(id, place({ id, width: widthOf(id), x: 0, bend: false }, layer));
  }
  const chains: Chains = new Map();
  for (const edge of edges) {
    const chain = [spots.get(edge.source)!];
    for (let at = layers.get(edge.source)! + 1; at < layers.get(edge.target)!; at += 1) {
      chain.push(place({ id: "", width: 8, x: 0, bend: true }, at));
    }
    chains.set(edge, [...chain, spots.get(edge.target)!]);
  }
  return { rows: Array.from(rows, (row) => row ?? []), chains };
}

/** Orders each row by the middle of its neighbours, then moves spots towards that middle. */
function untangle(rows: Spot[][], chains: Chains): void {
  const above = new Map<Spot, Spot[]>();
  const below = new Map<Spot, Spot[]>();
  const join = (map: Map<Spot, Spot[]>, key: Spot, value: Spot) =>
    map.set(key, [...(map.get(key) ?? []), value]);
  for (const chain of chains.values()) {
    for (let at = 1; at < chain.length; at += 1) {
      join(above, chain[at]!, chain[at - 1]!);
      join(below, chain[at - 1]!, chain[at]!);
    }
  }
  for (const row of rows) pack(row);
  for (let turn = 0; turn < 8; turn += 1) {
    const down = turn % 2 === 0;
    const near = down ? above : below;
    for (const row of down ? rows : [...rows].reverse()) {
      const wish = new Map(row.map((spot) => [spot, middle(near.get(spot) ?? [], spot.x)]));
      row.sort((a, b) => wish.get(a)! - wish.get(b)!);
      settle(row, wish);
    }
  }
}

const middle = (spots: Spot[], otherwise: number): number =>
  spots.length ? spots.reduce((sum, spot) => sum + spot.x, 0) / spots.length : otherwise;

/** Puts a row's spots side by side around zero. */
function pack(row: Spot[]): void {
  const total = row.reduce((sum, spot) => sum + spot.width, 0) + gap.x * (row.length - 1);
  let x = -total / 2;
  for (const spot of row) {
    spot.x = x + spot.width / 2;
    x += spot.width + gap.x;
  }
}

/** As near to the wishes as the widths allow, in the row's order. */
function settle(row: Spot[], wish: Map<Spot, number>): void {
  const left: number[] = [];
  row.forEach((spot, index) => {
    const before = row[index - 1];
    const least = before
      ? left[index - 1]! + before.width / 2 + gap.x + spot.width / 2
      : Number.NEGATIVE_INFINITY;
    left.push(Math.max(least, wish.get(spot)!));
  });
  const shift = row.reduce((sum, spot, index) => sum + wish.get(spot)! - left[index]!, 0);
  row.forEach((spot, index) => {
    spot.x = left[index]! + shift / row.length;
  });
}

function draw(rows: Spot[][], edges: Edge[], chains: Chains, back: Set<Edge>): Drawing {
  const spots = rows.flatMap((row, layer) => row.map((spot) => ({ spot, layer })));
  const left = Math.min(0, ...spots.map(({ spot }) => spot.x - spot.width / 2));
  const inner = Math.max(0, ...spots.map(({ spot }) => spot.x + spot.width / 2)) - left;
  const pad = 8;
  const yOf = (layer: number) => pad + layer * (boxHeight + gap.y);
  const place = new Map(
    spots.map(({ spot, layer }) => [spot, [spot.x - left + pad, yOf(layer)] as [number, number]]),
  );
  const boxes = spots
    .filter(({ spot }) => !spot.bend)
    .map(({ spot }): Box => {
      const [x, y] = place.get(spot)!;
      return { id: spot.id, kind: kindOf(spot.id), x, y, width: spot.width, height: boxHeight };
    });
  const byId = new Map(boxes.map((box) => [box.id, box]));
  let loops = 0;
  const lines = edges.map((edge): Line => {
    const base = {
      source: edge.source,
      target: edge.target,
      conditional: Boolean(edge.conditional),
      label: edge.label ?? null,
    };
    const from = byId.get(edge.source)!;
    const to = byId.get(edge.target)!;
    const chain = chains.get(edge);
    if (!chain || back.has(edge)) {
      loops += 1;
      const side = inner + pad + edgeOfLoop * loops;
      return { ...base, ...loop(from, to, side) };
    }
    return { ...base, ...through(chain.map((spot) => place.get(spot)!)) };
  });
  const width = inner + pad * 2 + loops * edgeOfLoop;
  return { boxes, lines, width, height: yOf(rows.length) - gap.y + pad };
}

/** A curve down through the points, which are the tops of boxes and bends. */
function through(points: [number, number][]) {
  const [start, ...rest] = points as [[number, number], ...[number, number][]];
  let at: [number, number] = [start[0], start[1] + boxHeight];
  let path = `M${at[0]} ${at[1]}`;
  rest.forEach(([x, y], index) => {
    const half = (at[1] + y) / 2;
    path += `C${at[0]} ${half} ${x} ${half} ${x} ${y}`;
    at = [x, y];
    if (index < rest.length - 1) {
      path += `V${y + boxHeight}`;
      at = [x, y + boxHeight];
    }
  });
  const [endX, endY] = rest.at(-1)!;
  const middle: [number, number] = [(start[0] + endX) / 2, (start[1] + boxHeight + endY) / 2];
  return { path, middle };
}

/** A line that leaves a box at its side and comes back to one further up. */
function loop(from: Box, to: Box, side: number) {
  const [x1, y1] = [from.x + from.width / 2, from.y + from.height / 2 + 5];
  const [x2, y2] = [to.x + to.width / 2, to.y + to.height / 2 - (from === to ? 5 : 0)];
  const path = `M${x1} ${y1}C${side} ${y1} ${side} ${y1} ${side} ${(y1 + y2) / 2}S${side} ${y2} ${x2} ${y2}`;
  return { path, middle: [side, (y1 + y2) / 2] as [number, number] };
}

// The graph beside the timeline, with what happened at the chosen checkpoint.

import { useMemo } from "preact/hooks";
import type { GraphDrawing } from "../api/types";
import { info } from "../model/app";
import { Empty } from "../ui/parts";
import type { Mark } from "./derive";
import { type Box, layout, type Line, shown, title } from "./layout";

const words: Record<Mark, string> = {
  ran: "ran",
  next: "runs next",
  failed: "failed",
  waiting: "waits",
};

/** A wide graph is scrolled rather than drawn smaller than this. */
const least = 0.7;

interface Props {
  graph: GraphDrawing;
  marks: Map<string, Mark>;
  busy: boolean;
  derived: boolean;
}

export function GraphView({ graph, marks, busy, derived }: Props) {
  const shape = JSON.stringify([graph.nodes.map((node) => node.id), graph.edges]);
  const drawing = useMemo(() => layout(graph), [shape]);
  if (graph.nodes.length < 2) {
    return <Empty icon="fork" title="No nodes have run yet" />;
  }
  const { width, height } = drawing;
  return (
    <div class="graph">
      <div class="graph-scroll">
        <svg
          class="graph-svg"
          viewBox={`0 0 ${width} ${height}`}
          width={width}
          height={height}
          style={{ minWidth: `${width * least}px` }}
          role="img"
          aria-label={describe(marks)}
        >
          <defs>
            <Arrow id="arrow" />
            <Arrow id="arrow-taken" />
          </defs>
          {drawing.lines.map((line) => (
            <g key={`${line.source}>${line.target}>${line.label}`}>
              <path
                class={edgeClass(line, marks)}
                d={line.path}
                marker-end={taken(line, marks) ? "url(#arrow-taken)" : "url(#arrow)"}
              />
              {line.label && line.label !== line.target && (
                <text class="graph-label" x={line.middle[0]} y={line.middle[1]}>
                  {line.label}
                </text>
              )}
            </g>
          ))}
          {drawing.boxes.map((box) => (
            <NodeBox key={box.id} box={box} mark={marks.get(box.id)} busy={busy} />
          ))}
        </svg>
      </div>
      <ul class="legend" aria-label="Legend">
        {(["ran", "next", "waiting", "failed"] as const).map((mark) => (
          <li key={mark} class={`legend-item legend-${mark}`}>
            {words[mark]}
          </li>
        ))}
      </ul>
      {derived && (
        <p class="graph-note">
          Drawn from what ran.{" "}
          {info.value?.graphs.length ? "Choose a graph" : "Start with --graph"} for every edge.
        </p>
      )}
    </div>
  );
}

function NodeBox({ box, mark, busy }: { box: Box; mark: Mark | undefined; busy: boolean }) {
  const names = ["graph-node", `graph-${box.kind}`];
  if (mark) names.push(`graph-${mark}`);
  if (mark === "next" && busy) names.push("graph-busy");
  const { x, y, width, height } = box;
  return (
    <g class={names.join(" ")} data-node={box.id} data-mark={mark ?? ""}>
      <title>{mark ? `${title(box.id)}: ${words[mark]}` : title(box.id)}</title>
      <rect
        x={x - width / 2}
        y={y}
        width={width}
        height={height}
        rx={box.kind === "node" ? 8 : height / 2}
      />
      <text x={x} y={y + height / 2}>
        {shown(box.id)}
      </text>
    </g>
  );
}

function Arrow({ id }: { id: string }) {
  return (
    <marker
      id={id}
      viewBox="0 0 8 8"
      refX="7"
      refY="4"
      markerWidth="7"
      markerHeight="7"
      markerUnits="userSpaceOnUse"
      orient="auto"
    >
      <path class={id} d="M0.5 0.5 7.5 4 0.5 7.5z" />
    </marker>
  );
}

function edgeClass(line: Line, marks: Map<string, Mark>): string {
  const dashed = line.conditional ? " graph-edge-conditional" : "";
  return `graph-edge${dashed}${taken(line, marks) ? " graph-edge-taken" : ""}`;
}

function taken(line: Line, marks: Map<string, Mark>): boolean {
  const from = marks.get(line.source);
  const to = marks.get(line.target);
  const went = from === "ran" && (to === "next" || to === "failed" || to === "waiting");
  const ended = from === "ran" && line.target === "__end__" && to === "ran";
  return went || ended;
}

function describe(marks: Map<string, Mark>): string {
  const said = [...marks].map(([node, mark]) => `${title(node)} ${words[mark]}`);
  return said.length ? `Graph: ${said.join(", ")}` : "Graph";
}

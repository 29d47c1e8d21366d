import { type ValidationDetail, ValidationError } from "../common/errors.ts";
import type { Graph } from "./graphs.ts";
import type { RunCreate } from "./wire.ts";

interface Named {
  place: (string | number)[];
  name: string;
}

/** True where a run names nodes of its graph. */
export function namesNodes(body: RunCreate): boolean {
  return named(body).length > 0;
}

/**
 * Refuses names that are no nodes of the graph. LangGraph passes over them in silence: a breakpoint
 * that was misspelled, meant to stop a payment, would not stop it.
 *
 * @throws ValidationError 422 that names the node and those that there are.
 */
export function checkNodeNames(graph: Graph, graphId: string, body: RunCreate): void {
  const nodes = Object.keys(graph.nodes);
  const own = nodes.filter((name) => name !== START);
  const detail = named(body)
    .filter(({ place, name }) => !nodes.includes(name) && !(place[0] === "command" && name === END))
    .map(({ place, name }): ValidationDetail => {
      const msg = `there is no node ${name} in graph ${graphId}; it has ${own.join(", ")}`;
      return { type: "unknown_node", loc: ["body", ...place], msg, input: name };
    });
  if (detail.length === 0) return;
  const sentences = detail.map(({ loc, msg }) => `${loc.slice(1).join(".")}: ${msg}`);
  throw new ValidationError(detail, `Invalid body: ${sentences.join("; ")}.`);
}

const START = "__start__";
const END = "__end__";

function named({ interrupt_before, interrupt_after, command }: RunCreate): Named[] {
  return [
    ...listed(["interrupt_before"], interrupt_before),
    ...listed(["interrupt_after"], interrupt_after),
    ...targets(command?.goto),
  ];
}

function listed(place: string[], names: string[] | "*" | null | undefined): Named[] {
  if (!Array.isArray(names)) return [];
  return names.map((name, index) => ({ place: [...place, index], name }));
}

function targets(goto: NonNullable<RunCreate["command"]>["goto"]): Named[] {
  if (goto == null) return [];
  const place = ["command", "goto"];
  const nameOf = (target: string | { node: string }) =>
    typeof target === "string" ? target : target.node;
  if (!Array.isArray(goto)) return [{ place, name: nameOf(goto) }];
  return goto.map((target, index) => ({ place: [...place, index], name: nameOf(target) }));
}

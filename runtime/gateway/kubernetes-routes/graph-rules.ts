import type { BackendRef, HttpRoute, RouteMatch, RouteRule } from "./resources.ts";

/** One rule of a route: which graphs go to which backend. */
export interface GraphRule {
  graphIds: string[];
  backend: BackendRef;
}

/** What a route asks for, or why it can't have it. */
export type RouteReading = { rules: GraphRule[] } | { unsupported: string };

const GRAPH_HEADER = "x-graph-id";
const GRAPH_PARAMETER = "graph_id";
const RULE_FIELDS = new Set(["name", "matches", "filters", "backendRefs"]);
const MATCH_FIELDS = new Set(["path", "headers", "queryParams"]);

/**
 * Reads which graphs a route is for. Only what the platform's routing is made of is taken: a route
 * that asks for more is refused as a whole, since serving half of it would mislead.
 */
export function readGraphRules({ spec }: HttpRoute): RouteReading {
  const rules: GraphRule[] = [];
  for (const [index, rule] of spec.rules.entries()) {
    const problem = problemOfRule(rule);
    const [backend] = rule.backendRefs;
    if (problem !== undefined || backend === undefined) {
      return { unsupported: `spec.rules[${index}]${problem ?? ".backendRefs is empty."}` };
    }
    const graphIds = rule.matches.flatMap(({ headers, queryParams }) =>
      [...headers, ...queryParams].map(({ value }) => value),
    );
    rules.push({ graphIds: [...new Set(graphIds)], backend });
  }
  if (rules.length === 0) return { unsupported: "spec.rules is empty: the route leads nowhere." };
  return { rules };
}

/** What of a rule the platform's gateway can't do, as the end of a sentence. */
function problemOfRule(rule: RouteRule): string | undefined {
  const unknown = Object.keys(rule).find((field) => !RULE_FIELDS.has(field));
  if (unknown !== undefined) return `.${unknown} is not supported. Remove it.`;
  if (rule.filters.length > 0) return ".filters are not supported. Remove them.";
  if (rule.matches.length === 0) return `.matches is empty. ${WHAT_TO_MATCH}`;
  for (const [index, match] of rule.matches.entries()) {
    const problem = problemOfMatch(match);
    if (problem !== undefined) return `.matches[${index}]${problem}`;
  }
  const [backend, second] = rule.backendRefs;
  if (backend === undefined || second !== undefined) {
    return ".backendRefs must name exactly one Service.";
  }
  if (backend.filters.length > 0) return ".backendRefs[0].filters are not supported. Remove them.";
  if (backend.weight === 0) return ".backendRefs[0].weight is 0, so the route leads nowhere.";
  return undefined;
}

const WHAT_TO_MATCH =
  "Match the header X-Graph-ID or the query parameter graph_id, type Exact: no agent is a default.";

function problemOfMatch(match: RouteMatch): string | undefined {
  const { path, headers, queryParams } = match;
  const unknown = Object.keys(match).find((field) => !MATCH_FIELDS.has(field));
  if (unknown !== undefined) return `.${unknown} is not supported. ${WHAT_TO_MATCH}`;
  if (path !== undefined && (path.type !== "PathPrefix" || path.value !== "/")) {
    return `.path is not supported: an agent gets all paths. ${WHAT_TO_MATCH}`;
  }
  const [term, second] = [...headers, ...queryParams];
  if (term === undefined) return ` matches every call. ${WHAT_TO_MATCH}`;
  if (second !== undefined) return ` has more than one term. ${WHAT_TO_MATCH}`;
  const known =
    headers.length > 0 ? term.name.toLowerCase() === GRAPH_HEADER : term.name === GRAPH_PARAMETER;
  if (!known) return ` matches ${JSON.stringify(term.name)}. ${WHAT_TO_MATCH}`;
  if (term.type !== "Exact") return ` has the type ${term.type}. ${WHAT_TO_MATCH}`;
  return undefined;
}

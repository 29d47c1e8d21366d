import { defineAgent } from "../../runtime/common/agent.ts";

export default defineAgent({
  graphId: "counter",
  description: "One node that adds one: what a run costs without a model.",
  graph: "./counter/graph.ts:graph",
});

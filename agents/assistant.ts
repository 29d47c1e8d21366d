import { defineAgent } from "../runtime/common/agent.ts";

export default defineAgent({
  graphId: "assistant",
  description: "A chat assistant that remembers a thread and can tell the time anywhere.",
  graph: "./assistant/graph.ts:graph",
});

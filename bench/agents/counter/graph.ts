import { Annotation, START, StateGraph } from "@langchain/langgraph";

export const graph = new StateGraph(Annotation.Root({ count: Annotation<number> }))
  .addNode("increment", ({ count }) => ({ count: count + 1 }))
  .addEdge(START, "increment")
  .compile({ name: "counter" });

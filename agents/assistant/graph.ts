import { SystemMessage } from "@langchain/core/messages";
import { MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { ToolNode, toolsCondition } from "@langchain/langgraph/prebuilt";
import { ChatOpenAI } from "@langchain/openai";
import { currentTime } from "./tools.ts";

const tools = [currentTime];
const instructions = new SystemMessage(
  "You are a helpful assistant. Answer briefly. Use the tool current_time when asked for the time or date.",
);

// OPENAI_BASE_URL and OPENAI_API_KEY lead to the platform's model gateway: an agent holds no key of
// a provider.
const model = new ChatOpenAI({
  model: process.env.DEFAULT_LLM_MODEL,
  apiKey: process.env.OPENAI_API_KEY,
  configuration: { baseURL: process.env.OPENAI_BASE_URL },
}).bindTools(tools);

/** The platform adds the checkpointer: what was said on a thread is remembered there. */
export const graph = new StateGraph(MessagesAnnotation)
  .addNode("model", async ({ messages }) => ({
    messages: [await model.invoke([instructions, ...messages])],
  }))
  .addNode("tools", new ToolNode(tools))
  .addEdge(START, "model")
  .addConditionalEdges("model", toolsCondition)
  .addEdge("tools", "model")
  .compile({ name: "assistant" });

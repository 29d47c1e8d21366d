import { curl } from "../common/curl.ts";

export interface FooterOptions {
  port: number;
  graphIds: string[];
  defaultModel: string;
  demo: boolean;
  token: string;
  console: { email: string; password: string };
  /** As the reader would write them. */
  dataDirectory: string;
  logs: string;
}

/** The last line of the progress. */
export function deployedLine(dataDirectory: string): string {
  return `Platform is deployed (embedded, data in ${dataDirectory.replace(/\/?$/, "/")}).`;
}

/** What a newcomer needs next: where things are, two calls that work when pasted, how to stop. */
export function footer(options: FooterOptions): string {
  const { port, graphIds, defaultModel, token, console } = options;
  const base = `http://localhost:${port}`;
  const [graphId = ""] = graphIds;
  const run = {
    assistant_id: graphId,
    input: { messages: [{ role: "human", content: "What time is it in Paris?" }] },
  };
  const completion = {
    model: defaultModel,
    messages: [{ role: "user", content: "Say hello." }],
  };
  const demo = options.demo
    ? "\n  The demo provider answers offline, with canned text; set a provider's variable for a real model.\n"
    : "";
  return `
  Agents         ${base}  (Agent Protocol; X-Graph-ID says which one)
  Graph ids      ${graphIds.join("\n                 ")}
  Model gateway  ${base}/v1  (OpenAI protocol; default model ${defaultModel})
  Traces         ${base}/traces  (sign in as ${console.email}, password ${console.password})
  Token          ${token}
${demo}
Run the agent:

${curl(`${base}/runs/wait`, [`Authorization: Bearer ${token}`, `X-Graph-ID: ${graphId}`], run)}

Ask the model:

${curl(`${base}/v1/chat/completions`, [`Authorization: Bearer ${token}`], completion)}

  Data           ${options.dataDirectory}
  Logs           ${options.logs}
  Stop           Ctrl-C (data and threads stay)

Agents run under Node's permission model only: no files beyond their code, no new processes, but the
whole network, local sockets and signals. That is not a sandbox. Run only agents that you trust here.`;
}

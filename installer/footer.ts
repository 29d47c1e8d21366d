import { LOCAL_AGENTS_HOST } from "../cli/connection.ts";
import { curl } from "../runtime/common/curl.ts";

export interface FooterOptions {
  url: string;
  clusterName: string;
  kubeconfig: string;
  agentsNamespace: string;
  graphIds: string[];
  defaultModel: string;
  token: string;
  tracing: { email: string; password: string };
  unsandboxed: boolean;
}

/** The last line of the progress (spec 4.5). */
export function deployedLine(clusterName: string): string {
  return `Platform is deployed on cluster ${clusterName}.`;
}

/** What a newcomer needs next: where things are, calls that work when pasted, how to go on. */
export function footer(options: FooterOptions): string {
  const { url, graphIds, token } = options;
  const port = new URL(url).port;
  const agentsHost = url === LOCAL_AGENTS_HOST ? "" : ` --agents-host ${url}`;
  const [graphId] = graphIds;
  const auth = `Authorization: Bearer ${token}`;
  const sections = [
    `
  Agents         ${url}  (Agent Protocol; X-Graph-ID: ${graphIds.join(" | ") || "none yet"})
  Model gateway  ${url}/v1  (OpenAI protocol; default model ${options.defaultModel})
  Traces         http://traces.localhost:${port}  (sign in as ${options.tracing.email}, password ${options.tracing.password}; the first time it asks for a new one)
  Token          ${token}`,
  ];
  if (options.unsandboxed) {
    sections.push("! Agents run UNSANDBOXED: the stack was asked for sandbox none.");
  }
  if (graphId !== undefined) {
    const body = {
      assistant_id: graphId,
      input: { messages: [{ role: "human", content: "What time is it in UTC?" }] },
    };
    sections.push(
      `Run the agent:\n\n${curl(`${url}/runs/wait`, [auth, `X-Graph-ID: ${graphId}`], body)}`,
    );
  }
  const completion = {
    model: options.defaultModel,
    messages: [{ role: "user", content: "Say hello." }],
  };
  sections.push(
    `Ask the model:\n\n${curl(`${url}/v1/chat/completions`, [auth], completion)}`,
    `With the command line:

npm install --global ./cli
agentctl env add local --kube-context kind-${options.clusterName} --namespace ${options.agentsNamespace}${agentsHost}
agentctl env use local`,
    `  kubectl    export KUBECONFIG=${options.kubeconfig}
  Uninstall  ./install.sh --uninstall`,
  );
  return sections.join("\n\n");
}

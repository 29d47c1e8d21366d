import { isDeepStrictEqual } from "node:util";
import { z } from "zod";
import { UserError } from "../../runtime/common/errors.ts";
import { type CommandContext, defineCommand } from "../command.ts";
import { agentsHostOf } from "../connection.ts";
import { type Environment, environment, environmentName } from "../environments.ts";

const httpUrl = z.url({ protocol: /^https?$/, error: "must be a URL with http or https" });

export const envAdd = defineCommand({
  name: "env add",
  description: "Add an environment: a cluster, a namespace and the way to its agents",
  positionals: ["name"],
  options: {
    "kube-context": { value: "CONTEXT", description: "context of the kubeconfig", required: true },
    namespace: { value: "NAMESPACE", description: "namespace of the agents", required: true },
    "agents-host": {
      value: "URL",
      description: "front door of the agents (default for kind clusters: http://localhost:8088)",
    },
    token: { value: "TOKEN", description: "bearer token for it; - reads it from standard input" },
    replace: { description: "replace an environment of this name" },
  },
  input: z.object({
    name: environmentName,
    "kube-context": z.string().min(1, "must not be empty"),
    namespace: z.string().regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, "is not a namespace"),
    "agents-host": httpUrl.optional(),
    token: z.string().min(1, "must not be empty").optional(),
    replace: z.boolean().optional(),
  }),
  async run(input, context) {
    const { name } = input;
    const token = input.token === "-" ? await readToken(context) : input.token;
    const added = environment.parse({
      kubeContext: input["kube-context"],
      namespace: input.namespace,
      ...(input["agents-host"] !== undefined && { agentsHost: input["agents-host"] }),
      ...(token !== undefined && { token }),
    });
    const environments = await context.environments.read();
    const known = environments.all.get(name);
    if (known !== undefined && !input.replace && !isDeepStrictEqual(known, added)) {
      throw new UserError(
        "environment_exists",
        `There is an environment ${name} already: ${describe(known)}.`,
        "Add this one under another name, or replace it with --replace.",
      );
    }
    environments.all.set(name, added);
    environments.current ??= name;
    await context.environments.write(environments);
    context.print(`Environment ${name}: ${describe(added)}.\n`);
    context.print(
      environments.current === name
        ? "It is selected.\n"
        : `Select it with: agentctl env use ${name}\n`,
    );
  },
});

async function readToken(context: CommandContext): Promise<string> {
  const token = (await context.readInput()).trim();
  if (/^\S+$/.test(token)) return token;
  throw new UserError(
    "arguments",
    "Standard input has no token.",
    "Pipe one in: agentctl env add … --token - < token-file",
    2,
  );
}

function describe(environment: Environment): string {
  const agents = agentsHostOf(environment);
  return [
    `context ${environment.kubeContext}`,
    `namespace ${environment.namespace}`,
    ...(agents === undefined ? [] : [`agents at ${agents}`]),
  ].join(", ");
}

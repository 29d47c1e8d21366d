import { z } from "zod";
import { UserError } from "../../runtime/common/errors.ts";
import { defineCommand } from "../command.ts";

export const envUse = defineCommand({
  name: "env use",
  description: "Select the environment that commands work on",
  positionals: ["name"],
  options: {},
  input: z.object({ name: z.string() }),
  async run({ name }, context) {
    const environments = await context.environments.read();
    if (!environments.all.has(name)) {
      const known = [...environments.all.keys()].join(", ");
      throw new UserError(
        "no_environment",
        `There is no environment ${name}.`,
        known === ""
          ? `Add it: agentctl env add ${name} --kube-context CONTEXT --namespace NAMESPACE`
          : `Environments: ${known}.`,
      );
    }
    await context.environments.write({ ...environments, current: name });
    context.print(`Environment ${name} is selected.\n`);
  },
});

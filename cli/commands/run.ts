import { z } from "zod";
import { defineCommand } from "../command.ts";
import { connectionOf } from "../connection.ts";
import { createFrontDoor } from "../front-door.ts";
import { answerOf, LiveAnswer } from "../run-answer.ts";

export const run = defineCommand({
  name: "run",
  description: "Run a deployed agent and print its answer",
  positionals: [],
  options: {
    "graph-id": { value: "GRAPH_ID", description: "the agent", required: true },
    input: { value: "TEXT", description: "what to say to it", required: true },
    stream: { description: "print the answer as it comes" },
    thread: { value: "UUID", description: "go on with this thread; it is made if it is new" },
    env: { value: "NAME", description: "environment, in place of the selected one" },
    "agents-host": { value: "URL", description: "front door, in place of the environment's" },
  },
  input: z.object({
    "graph-id": z.string().regex(/^[\x21-\x7e]+$/, "must be a graph id"),
    input: z.string(),
    stream: z.boolean().default(false),
    thread: z.guid("must be a UUID").optional(),
    env: z.string().optional(),
    "agents-host": z
      .url({ protocol: /^https?$/, error: "must be a URL with http or https" })
      .optional(),
  }),
  async run(input, context) {
    const connection = connectionOf(
      { environment: input.env, agentsHost: input["agents-host"], token: context.token },
      await context.environments.read(),
    );
    const door = createFrontDoor(connection, context.signal);
    const request = { graphId: input["graph-id"], text: input.input, threadId: input.thread };
    try {
      if (!input.stream) {
        context.print(`${answerOf(await door.wait(request))}\n`);
        return;
      }
      const answer = new LiveAnswer((text) => context.print(text));
      for await (const event of door.stream(request)) answer.take(event);
      answer.finish();
    } finally {
      await door.close();
    }
  },
});

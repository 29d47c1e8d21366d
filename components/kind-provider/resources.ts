import type { DiffResult } from "@pulumi/pulumi/provider/index.js";
import type { z } from "zod";

/** One kind of resource: what it takes, and what to do over its life. */
export interface ResourceKind<Inputs, State extends Inputs> {
  inputs: z.ZodType<Inputs>;
  /** Inputs whose change means another resource. Those not named are changed by `update`. */
  replaces: readonly (keyof Inputs & string)[];
  /**
   * Whether these inputs can be had on this machine, asked before anything is changed.
   *
   * @param before Those of the resource that is there.
   * @throws UserError where they can't.
   */
  check?(inputs: Inputs, before: Inputs | undefined): Promise<void>;
  create(inputs: Inputs): Promise<{ id: string; state: State }>;
  /** What is there now; undefined if it is gone. */
  read(state: State): Promise<State | undefined>;
  update(state: State, inputs: Inputs): Promise<State>;
  delete(state: State): Promise<void>;
}

/** Which inputs changed, and whether that needs a new resource. */
export function diffInputs<Inputs>(
  kind: { replaces: readonly (keyof Inputs)[] },
  before: Record<string, unknown>,
  after: Record<string, unknown>,
): DiffResult {
  const changed = Object.keys(after).filter(
    (name) =>
      !name.startsWith("__") && JSON.stringify(before[name]) !== JSON.stringify(after[name]),
  );
  return {
    changes: changed.length > 0,
    replaces: changed.filter((name) => (kind.replaces as readonly string[]).includes(name)),
    deleteBeforeReplace: true,
  };
}

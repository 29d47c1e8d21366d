import type {
  CheckResult,
  CreateResult,
  DiffResult,
  Provider,
  ReadResult,
  UpdateResult,
} from "@pulumi/pulumi/provider/index.js";
import { UserError } from "../../runtime/common/errors.ts";
import { cluster } from "./cluster.ts";
import { loadedImages } from "./loaded-images.ts";
import { diffInputs, type ResourceKind } from "./resources.ts";
import { sandbox } from "./sandbox.ts";

// biome-ignore lint/suspicious/noExplicitAny: each kind checks its own inputs
type AnyKind = ResourceKind<any, any>;

const KINDS: Record<string, AnyKind> = {
  "kindlocal:index:Cluster": cluster,
  "kindlocal:index:LoadedImages": loadedImages,
  "kindlocal:index:Sandbox": sandbox,
};

/**
 * The Pulumi provider for what a local installation has outside of Kubernetes: the kind cluster,
 * the images in its node, and gVisor on it.
 */
export class KindLocalProvider implements Provider {
  readonly version = "1.0.0";

  async check(urn: string, olds: unknown, news: Record<string, unknown>): Promise<CheckResult> {
    const kind = kindOf(urn);
    const known = Object.fromEntries(Object.entries(news).filter(([, value]) => !isUnknown(value)));
    const result = kind.inputs.safeParse(known);
    const failures = (result.error?.issues ?? [])
      .map((issue) => ({ property: String(issue.path[0]), reason: issue.message }))
      .filter(({ property }) => !isUnknown(news[property]));
    if (result.success) {
      try {
        await kind.check?.(result.data, kind.inputs.safeParse(olds).data);
      } catch (error) {
        if (!(error instanceof UserError)) throw error;
        // Of no single property.
        failures.push({ property: "", reason: readable(error) });
      }
    }
    return { inputs: news, failures };
  }

  async diff(
    _id: string,
    urn: string,
    olds: Record<string, unknown>,
    news: Record<string, unknown>,
  ): Promise<DiffResult> {
    return diffInputs(kindOf(urn), olds, news);
  }

  async create(urn: string, inputs: Record<string, unknown>): Promise<CreateResult> {
    const kind = kindOf(urn);
    const { id, state } = await withHints(() => kind.create(kind.inputs.parse(inputs)));
    return { id, outs: state };
  }

  async read(id: string, urn: string, props: unknown): Promise<ReadResult> {
    const kind = kindOf(urn);
    const state = await withHints(() => kind.read(props));
    if (state === undefined) return {};
    return { id, props: state, inputs: kind.inputs.parse(state) };
  }

  async update(
    _id: string,
    urn: string,
    olds: unknown,
    news: Record<string, unknown>,
  ): Promise<UpdateResult> {
    const kind = kindOf(urn);
    return { outs: await withHints(() => kind.update(olds, kind.inputs.parse(news))) };
  }

  async delete(_id: string, urn: string, props: unknown): Promise<void> {
    await withHints(() => kindOf(urn).delete(props));
  }
}

function kindOf(urn: string): AnyKind {
  const type = urn.split("::")[2]?.split("$").at(-1) ?? "";
  const kind = KINDS[type];
  if (kind === undefined) throw new Error(`The provider kindlocal has no resource ${type}.`);
  return kind;
}

/** Pulumi shows only the message of an error: a user's mistake comes with its hint. */
async function withHints<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof UserError) throw new Error(readable(error));
    throw error;
  }
}

function readable({ message, hint }: UserError): string {
  return `${message} ${hint}`;
}

/** What the engine sends for a value that a preview can't know. */
const UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9";

function isUnknown(value: unknown): boolean {
  return value === UNKNOWN;
}

import { GRAPH_ID, PROJECT, PROJECT_ATTRIBUTE, TENANT } from "../common/telemetry.ts";
import type { Caller } from "./caller.ts";
import { changeFields, delimited, fieldsOf } from "./protobuf-fields.ts";

/**
 * Field numbers of opentelemetry/proto/trace/v1/trace.proto and common/v1/common.proto, which are
 * stable.
 */
const REQUEST = { resourceSpans: 1 };
const RESOURCE_SPANS = { resource: 1, scopeSpans: 2 };
const RESOURCE = { attributes: 1 };
const SCOPE_SPANS = { spans: 2 };
const SPAN = { attributes: 9 };
const KEY_VALUE = { key: 1, value: 2 };
const ANY_VALUE = { string: 1 };

/**
 * Writes into an agent's spans whose they are: project, the tenant that owns the agent, and the
 * graph id, on the resource; the graph id on each span too, where tracing UIs look for it. What the
 * agent claimed under these names is gone. The tenant of a single span is the run's and stays the
 * agent's word (docs/decisions/0007).
 *
 * @param body An `ExportTraceServiceRequest` in protobuf.
 * @throws MalformedMessage
 */
export function stampSpans(body: Buffer, { tenant, agent }: Caller): Buffer {
  const ofAgent: Record<string, string> = agent === null ? {} : { [GRAPH_ID]: agent };
  const ofResource = { [PROJECT_ATTRIBUTE]: PROJECT, [TENANT]: tenant, ...ofAgent };
  return changeFields(body, REQUEST.resourceSpans, (resourceSpans) => {
    const stamped = changeFields(resourceSpans, RESOURCE_SPANS.scopeSpans, (scopeSpans) =>
      changeFields(scopeSpans, SCOPE_SPANS.spans, (span) =>
        withAttributes(span, SPAN.attributes, ofAgent),
      ),
    );
    return withResource(stamped, (resource) =>
      withAttributes(resource, RESOURCE.attributes, ofResource),
    );
  });
}

/** Parts of one resource may stand apart: they are put together, as every reader would. */
function withResource(resourceSpans: Buffer, change: (resource: Buffer) => Buffer): Buffer {
  const parts: Buffer[] = [];
  const others: Buffer[] = [];
  for (const { number, content, bytes } of fieldsOf(resourceSpans)) {
    if (number === RESOURCE_SPANS.resource && content !== undefined) parts.push(content);
    else others.push(bytes);
  }
  const resource = delimited(RESOURCE_SPANS.resource, change(Buffer.concat(parts)));
  return Buffer.concat([resource, ...others]);
}

function withAttributes(
  message: Buffer,
  number: number,
  attributes: Readonly<Record<string, string>>,
): Buffer {
  const kept = [...fieldsOf(message)].filter(
    (field) => field.number !== number || !Object.hasOwn(attributes, keyOf(field.content)),
  );
  return Buffer.concat([
    ...kept.map(({ bytes }) => bytes),
    ...Object.entries(attributes).map(([key, value]) => delimited(number, keyValue(key, value))),
  ]);
}

function keyValue(key: string, value: string): Buffer {
  const any = delimited(ANY_VALUE.string, value);
  return Buffer.concat([delimited(KEY_VALUE.key, key), delimited(KEY_VALUE.value, any)]);
}

/** Of a field that stands twice the last counts. */
function keyOf(attribute: Buffer | undefined): string {
  const keys = [...fieldsOf(attribute ?? Buffer.alloc(0))].filter(
    ({ number }) => number === KEY_VALUE.key,
  );
  return keys.at(-1)?.content?.toString() ?? "";
}

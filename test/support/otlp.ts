import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BasicTracerProvider, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { type Field, fieldsOf } from "../../runtime/model-gateway/protobuf-fields.ts";

type Attributes = Record<string, string>;

/** Sends one span a name, all with the same attributes, as an agent's own tracer does. */
export async function sendSpans(
  url: string,
  token: string,
  names: string[],
  { resource = {}, span = {} }: { resource?: Attributes; span?: Attributes } = {},
): Promise<void> {
  const exporter = new OTLPTraceExporter({ url, headers: { authorization: `Bearer ${token}` } });
  const provider = new BasicTracerProvider({
    resource: resourceFromAttributes(resource),
    spanProcessors: [new SimpleSpanProcessor(exporter)],
  });
  const tracer = provider.getTracer("agent");
  for (const name of names) tracer.startSpan(name, { attributes: span }).end();
  await provider.shutdown();
}

/** What an `ExportTraceServiceRequest` holds, as far as tests look at it. */
export interface ReceivedSpans {
  resource: [string, string][];
  spans: { name: string; attributes: [string, string][] }[];
}

export function readSpans(body: Buffer): ReceivedSpans[] {
  return within(body, 1).map((resourceSpans) => ({
    resource: within(resourceSpans, 1).flatMap((resource) => attributes(resource, 1)),
    spans: within(resourceSpans, 2)
      .flatMap((scopeSpans) => within(scopeSpans, 2))
      .map((span) => ({
        name: String(within(span, 5)[0]),
        attributes: attributes(span, 9),
      })),
  }));
}

function attributes(message: Buffer, number: number): [string, string][] {
  return within(message, number).map((pair) => [
    String(within(pair, 1)[0]),
    String(within(within(pair, 2)[0] ?? Buffer.alloc(0), 1)[0] ?? ""),
  ]);
}

function within(message: Buffer, number: number): Buffer[] {
  return [...fieldsOf(message)]
    .filter((field): field is Field & { content: Buffer } => field.number === number)
    .flatMap(({ content }) => content ?? []);
}

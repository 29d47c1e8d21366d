import { html } from "hono/html";
import type { TraceSpan } from "../trace-store.ts";
import type { WaterfallRow } from "../waterfall.ts";
import { count, duration, instant, prettyPrint } from "./format.ts";
import { layout, type Markup } from "./layout.ts";
import { status } from "./trace-list.ts";

export interface TraceProps {
  traceId: string;
  /** At least one. */
  rows: WaterfallRow[];
  /** How many spans the trace has, more than rows if it is very long. */
  total: number;
}

const SERVICES = ["gateway", "worker", "model-gateway", "tool-gateway"];
/** Deeper spans are drawn at this depth: the name column has an end. */
const DEEPEST = 9;
/** A bar that takes no time at all is still seen. */
const NARROWEST_PERCENT = 0.3;
const SHOWN_APART = new Set([
  "input.value",
  "input.mime_type",
  "output.value",
  "output.mime_type",
  "openinference.span.kind",
]);

/** One trace as a waterfall; each span opens to what it holds. */
export function tracePage({ traceId, rows, total }: TraceProps): Markup {
  const spans = rows.map((row) => row.span);
  const lengthUs = Math.max(...spans.map((span) => span.offsetUs + span.durationUs));
  const root = rows[0]?.span;
  return layout({
    title: root?.name ?? "Trace",
    signedIn: true,
    current: "traces",
    content: html`<p class="crumbs"><a href="/traces">Traces</a> <span class="muted">/ project Platform</span></p>
<div class="heading">
<h1>${root?.name}</h1>
${status(spans.some((span) => span.failed))}
</div>
<dl class="facts">
<div><dt>Started</dt><dd>${root === undefined ? "" : instant(root.startedAt)}</dd></div>
<div><dt>Duration</dt><dd>${duration(lengthUs / 1000)}</dd></div>
<div><dt>Spans</dt><dd>${count(total)}</dd></div>
${fact("Graph", firstAttribute(spans, "platform.graph_id"))}
${fact("Tenant", firstAttribute(spans, "platform.tenant"))}
${fact("Run", firstAttribute(spans, "platform.run_id"))}
<div><dt>Trace</dt><dd><code>${traceId}</code></dd></div>
</dl>
${failure(rows)}
${total > rows.length ? html`<p class="problem">This trace has ${count(total)} spans; the first ${count(rows.length)} are shown.</p>` : ""}
<section class="waterfall" aria-label="Waterfall">
<div class="axis" aria-hidden="true">
<span class="legend">${legend(spans)}</span>
<span class="ticks">${[0, 0.25, 0.5, 0.75, 1].map((part) => html`<i>${duration((lengthUs * part) / 1000)}</i>`)}</span>
</div>
${rows.map(spanRow)}
</section>`,
  });
}

function fact(name: string, value: string | undefined): Markup | string {
  return value === undefined ? "" : html`<div><dt>${name}</dt><dd>${value}</dd></div>`;
}

function firstAttribute(spans: TraceSpan[], name: string): string | undefined {
  const value = spans.find((span) => span.attributes[name] !== undefined)?.attributes[name];
  return value === undefined ? undefined : String(value);
}

function legend(spans: TraceSpan[]): Markup[] {
  const services = [...new Set(spans.map((span) => span.service))].sort();
  return services.map(
    (service) => html`<span class="service ${serviceClass(service)}">${service}</span>`,
  );
}

/** A class of ours for a name that anyone may have chosen. */
function serviceClass(service: string): string {
  return SERVICES.includes(service) ? `s-${service}` : "s-other";
}

function spanRow({ span, depth, left, width }: WaterfallRow): Markup {
  const barWidth = Math.max(width, NARROWEST_PERCENT);
  const barLeft = Math.min(left, 100 - barWidth);
  return html`<details class="span ${span.failed ? "failed" : ""}">
<summary>
<span class="name d${Math.min(depth, DEEPEST)}"><i class="dot ${serviceClass(span.service)}"></i><b title="${span.name}">${span.name}</b><em>${note(span)}</em></span>
<span class="time">${duration(span.durationUs / 1000)}</span>
<svg class="bar" role="img" aria-label="${span.service}, ${duration(span.durationUs / 1000)}"><rect class="${serviceClass(span.service)}" x="${barLeft.toFixed(3)}%" width="${barWidth.toFixed(3)}%" height="100%" rx="3"></rect></svg>
</summary>
${spanDetails(span)}
</details>`;
}

/** What a row says beside the span's name: its kind, and what a model's answer took. */
function note({ kind, attributes }: TraceSpan): string {
  const tokens = Number(attributes["llm.token_count.total"]);
  return tokens > 0 ? `${kind.toLowerCase()}, ${count(tokens)} tokens` : kind.toLowerCase();
}

/** The innermost failure: the spans around it mostly fail for its sake. */
function failure(rows: WaterfallRow[]): Markup | string {
  const failed = rows.filter((row) => row.span.failed && row.span.statusMessage);
  const innermost = failed.sort((a, b) => b.depth - a.depth)[0]?.span;
  return innermost === undefined
    ? ""
    : html`<p class="problem"><b>${innermost.name}</b>: ${innermost.statusMessage}</p>`;
}

function spanDetails(span: TraceSpan): Markup {
  const { attributes } = span;
  const others = Object.entries(attributes)
    .filter(([name]) => !SHOWN_APART.has(name))
    .sort(([a], [b]) => a.localeCompare(b));
  return html`<div class="details">
${span.failed ? html`<p class="problem">${span.statusMessage ?? "This span failed without a message."}</p>` : ""}
<p class="muted">${span.service} · started ${duration(span.offsetUs / 1000)} after the trace began · span <code>${span.spanId}</code></p>
${block("Input", attributes["input.value"])}
${block("Output", attributes["output.value"])}
${others.length === 0 ? "" : html`<table class="attributes"><tbody>${others.map(([name, value]) => html`<tr><th>${name}</th><td>${prettyPrint(value)}</td></tr>`)}</tbody></table>`}
</div>`;
}

function block(title: string, value: unknown): Markup | string {
  if (value === undefined) return "";
  return html`<h3>${title}</h3><pre class="code"><code>${prettyPrint(value)}</code></pre>`;
}

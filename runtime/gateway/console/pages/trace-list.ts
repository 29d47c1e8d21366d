import { html } from "hono/html";
import type { TraceFilter, TracePage, TraceSummary } from "../trace-store.ts";
import { ago, count, duration, inputPreview, instant } from "./format.ts";
import { layout, type Markup } from "./layout.ts";

export interface TraceListProps {
  page: TracePage;
  filter: TraceFilter;
  /** True on any page but the first. */
  older: boolean;
  graphIds: string[];
  /** A call that makes a first trace. */
  curl: string;
  /** ms since 1970. */
  now: number;
}

export function traceListPage(props: TraceListProps): Markup {
  const { page, filter, graphIds, now } = props;
  return layout({
    title: "Traces",
    signedIn: true,
    current: "traces",
    content: html`<div class="heading">
<h1>Traces</h1>
<span class="tag">project Platform</span>
</div>
<form class="filter" method="get" action="/traces" role="search">
<input type="search" name="q" value="${filter.text ?? ""}" placeholder="Search name, input, tenant or trace id" aria-label="Search">
<select name="graph" aria-label="Graph">
<option value="">All graphs</option>
${graphIds.map((id) => html`<option value="${id}" ${id === filter.graphId ? html`selected` : ""}>${id}</option>`)}
</select>
<label class="check"><input type="checkbox" name="failed" value="1" ${filter.failedOnly ? html`checked` : ""}> Failed only</label>
<button class="primary">Filter</button>
</form>
${page.traces.length === 0 ? emptyState(props) : table(page.traces, now)}
${pager(props)}`,
  });
}

function table(traces: TraceSummary[], now: number): Markup {
  return html`<table class="traces">
<thead><tr><th>Run</th><th>Graph</th><th>Tenant</th><th class="number">Duration</th><th class="number">Spans</th><th class="number">Tokens</th><th>Status</th><th>When</th></tr></thead>
<tbody>
${traces.map((trace) => row(trace, now))}
</tbody>
</table>`;
}

function row(trace: TraceSummary, now: number): Markup {
  const { startedAt, graphId, tenant } = trace;
  return html`<tr>
<td class="run"><a href="/traces/${trace.traceId}">${trace.name}</a>${
    trace.input === null
      ? ""
      : html`<span class="preview muted">${inputPreview(trace.input)}</span>`
  }</td>
<td data-label="Graph">${graphId === null ? html`<span class="muted">–</span>` : html`<span class="tag">${graphId}</span>`}</td>
<td data-label="Tenant">${tenant ?? html`<span class="muted">–</span>`}</td>
<td data-label="Duration" class="number">${duration(trace.durationMs)}</td>
<td data-label="Spans" class="number">${count(trace.spans)}</td>
<td data-label="Tokens" class="number">${trace.tokens === 0 ? html`<span class="muted">–</span>` : count(trace.tokens)}</td>
<td data-label="Status">${status(trace.failed)}</td>
<td data-label="When" class="when"><time datetime="${startedAt.toISOString()}" title="${instant(startedAt)}">${ago(startedAt, now)}</time></td>
</tr>`;
}

export function status(failed: boolean): Markup {
  return failed
    ? html`<span class="status failed">failed</span>`
    : html`<span class="status ok">ok</span>`;
}

function isFiltered({ text, graphId, failedOnly }: TraceFilter): boolean {
  return Boolean(text || graphId || failedOnly);
}

function emptyState({ filter, older, curl }: TraceListProps): Markup {
  if (isFiltered(filter) || older) {
    return html`<section class="card empty">
<h2>No trace matches</h2>
<p><a href="/traces">Show all traces</a></p>
</section>`;
  }
  return html`<section class="card empty">
<h2>No traces yet</h2>
<p class="muted">Call an agent, wait a second, and load this page again:</p>
<pre class="code"><code>${curl}</code></pre>
</section>`;
}

function pager({ page, filter, older }: TraceListProps): Markup {
  const query = (cursor?: string) => {
    const parameters = new URLSearchParams();
    if (filter.text) parameters.set("q", filter.text);
    if (filter.graphId) parameters.set("graph", filter.graphId);
    if (filter.failedOnly) parameters.set("failed", "1");
    if (cursor !== undefined) parameters.set("cursor", cursor);
    const text = parameters.toString();
    return text === "" ? "/traces" : `/traces?${text}`;
  };
  return html`<nav class="pager" aria-label="Pages">
${older ? html`<a class="button" rel="first" href="${query()}">Newest</a>` : ""}
${page.next === undefined ? "" : html`<a class="button" rel="next" href="${query(page.next)}">Older</a>`}
</nav>`;
}

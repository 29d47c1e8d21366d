import { html } from "hono/html";
import { curl } from "../../../common/curl.ts";
import { layout, type Markup } from "./layout.ts";

export interface WelcomeProps {
  /** Undefined where the console has no sign-in. */
  signedIn: boolean | undefined;
  urls: { agents: string; models: string };
  /** Only for those who signed in: names and tokens are nobody else's business. */
  graphIds: string[];
  devToken: string | undefined;
}

export function welcomePage(props: WelcomeProps): Markup {
  const { signedIn, urls, graphIds } = props;
  return layout({
    title: "Welcome",
    signedIn,
    content: html`<section class="intro">
<h1>The platform is running</h1>
<p class="muted">Your agents answer at one door, their calls to models go through another, and every run leaves a trace.</p>
</section>
<section class="cards">
<article class="card">
<h2>Agents</h2>
<p><code>${urls.agents}</code></p>
${agentList(signedIn, graphIds)}
</article>
<article class="card">
<h2>Models</h2>
<p><code>${urls.models}/v1</code></p>
<p class="muted">Speaks the OpenAI wire: give this address to an SDK as its base URL, with a consumer token as its key.</p>
</article>
<article class="card">
<h2>Traces</h2>
<p><a class="button primary" href="/traces">See what your agents did</a></p>
<p class="muted">One trace a call, a waterfall of every step.</p>
</article>
</section>
<section class="card">
<h2>Call an agent</h2>
<pre class="code"><code>${firstCall(props)}</code></pre>
${hint(signedIn)}
</section>`,
  });
}

function hint(signedIn: boolean | undefined): Markup | string {
  if (signedIn) return "";
  const invitation =
    signedIn === undefined
      ? ""
      : html`<a href="/sign-in">Sign in</a> to see which agents run here.`;
  return html`<p class="muted">Put your token and the graph id of your agent in. ${invitation}</p>`;
}

function agentList(signedIn: boolean | undefined, graphIds: string[]): Markup | string {
  if (!signedIn) return "";
  if (graphIds.length === 0) return html`<p class="muted">No agent is deployed yet.</p>`;
  return html`<ul class="tags">${graphIds.map((id) => html`<li class="tag">${id}</li>`)}</ul>`;
}

/** The call that the README begins with, for this platform. */
export function firstCall({ urls, graphIds, devToken, signedIn }: WelcomeProps): string {
  const graphId = (signedIn && graphIds[0]) || "<graph id>";
  const token = (signedIn && devToken) || "<token>";
  const body = {
    assistant_id: graphId,
    input: { messages: [{ role: "human", content: "What time is it in UTC?" }] },
  };
  const headers = [`Authorization: Bearer ${token}`, `X-Graph-ID: ${graphId}`];
  return curl(`${urls.agents}/runs/wait`, headers, body);
}

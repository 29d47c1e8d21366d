import { html } from "hono/html";
import { layout, type Markup } from "./layout.ts";

/** A page that only says something: nothing here, something broke. */
export function messagePage(title: string, message: string, signedIn?: boolean): Markup {
  return layout({
    title,
    signedIn,
    content: html`<section class="card narrow">
<h1>${title}</h1>
<p>${message}</p>
<p><a href="/">Back to the start</a></p>
</section>`,
  });
}

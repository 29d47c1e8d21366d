import { html } from "hono/html";
import { layout, type Markup } from "./layout.ts";

export interface SignInProps {
  /** Where to go after. */
  next: string;
  email: string;
  /** Why the last try did not work. */
  problem?: string;
}

export function signInPage({ next, email, problem }: SignInProps): Markup {
  return layout({
    title: "Sign in",
    signedIn: false,
    content: html`<section class="card narrow">
<h1>Sign in</h1>
<p class="muted">Traces hold what people asked your agents, so they need a sign-in. The installer printed email and password when it started the platform.</p>
${problem === undefined ? "" : html`<p class="problem" role="alert">${problem}</p>`}
<form class="stack" method="post" action="/sign-in">
<input type="hidden" name="next" value="${next}">
<label>Email
<input type="text" inputmode="email" name="email" value="${email}" autocomplete="username" autocapitalize="none" spellcheck="false" required autofocus>
</label>
<label>Password
<input type="password" name="password" autocomplete="current-password" required>
</label>
<button class="primary">Sign in</button>
</form>
</section>`,
  });
}

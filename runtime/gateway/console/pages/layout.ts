import { html } from "hono/html";
import type { HtmlEscapedString } from "hono/utils/html";
import { ICON_PATH, STYLESHEET_PATH } from "../assets.ts";

/** A piece of a page. Everything put into an `html` template is escaped unless it is one of these. */
export type Markup = HtmlEscapedString | Promise<HtmlEscapedString>;

export interface LayoutProps {
  title: string;
  /** Undefined where the console has no sign-in. */
  signedIn: boolean | undefined;
  /** The menu entry that this page belongs to. */
  current?: "traces";
  content: Markup;
}

/** The frame of every page. */
export function layout({ title, signedIn, current, content }: LayoutProps): Markup {
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title} · Platform</title>
<link rel="stylesheet" href="${STYLESHEET_PATH}">
<link rel="icon" type="image/svg+xml" href="${ICON_PATH}">
</head>
<body>
<header class="top">
<a class="brand" href="/">Platform</a>
<nav>
<a href="/traces" ${current === "traces" ? html`aria-current="page"` : ""}>Traces</a>
</nav>
${account(signedIn)}
</header>
<main>
${content}
</main>
</body>
</html>`;
}

function account(signedIn: boolean | undefined): Markup | string {
  if (signedIn === undefined) return "";
  return signedIn
    ? html`<form method="post" action="/sign-out"><button class="quiet">Sign out</button></form>`
    : html`<a class="quiet" href="/sign-in">Sign in</a>`;
}

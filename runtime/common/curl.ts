/** A call that can be pasted into a shell as it stands; JSON goes in its body. */
export function curl(url: string, headers: string[], body: unknown): string {
  const lines = [
    `curl -sS ${url}`,
    ...["Content-Type: application/json", ...headers].map((header) => `-H ${quoted(header)}`),
    `-d ${quoted(JSON.stringify(body))}`,
  ];
  return lines.join(" \\\n  ");
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** The error that a call ends with; fails if there is none. */
// biome-ignore lint/suspicious/noExplicitAny: each library's errors have their own fields.
export async function failureOf(call: Promise<unknown>): Promise<any> {
  return call.then(
    () => {
      throw new Error("The call should have failed.");
    },
    (error: unknown) => error,
  );
}

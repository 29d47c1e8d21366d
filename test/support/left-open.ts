const PATIENCE_MS = 30_000;

/** Mocha waits for ever where a test leaves something open: then the run fails and says what it is. */
export const mochaHooks = {
  afterAll() {
    const complain = () => {
      const left = process.getActiveResourcesInfo().join(", ");
      console.error(
        `The tests ended ${PATIENCE_MS / 1_000} s ago, but this is still open: ${left}`,
      );
      // Mocha sets the code to the number of failed tests at the last moment; this is later still.
      process.on("exit", () => {
        process.exitCode = 1;
      });
      process.exit();
    };
    setTimeout(complain, PATIENCE_MS).unref();
  },
};

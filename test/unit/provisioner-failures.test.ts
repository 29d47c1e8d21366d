import { expect } from "chai";
import {
  describe as describeFailure,
  step,
  withoutSecrets,
} from "../../runtime/provisioner/failure.ts";
import { scramVerifier } from "../../runtime/provisioner/scram.ts";

describe("what the provisioner says of a failure", () => {
  it("has no hash, verifier or password in it", async () => {
    const verifier = await scramVerifier("password");
    const hash = "ab".repeat(32);
    const text = withoutSecrets(
      `ALTER ROLE x PASSWORD '${verifier}'; ACL SETUSER '#${hash}'; postgres://user:pass@host/db`,
    );
    expect(text).to.equal("ALTER ROLE x PASSWORD '…'; ACL SETUSER '…'; postgres://…@host/db");
  });

  it("names the step, and the reason behind an error of several", async () => {
    const cause = new AggregateError([new Error("connect ECONNREFUSED"), new Error("other")]);
    const failure = await step("do it", () => Promise.reject(cause)).catch((error) => error);
    expect(describeFailure(failure)).to.equal(
      "The provisioner could not do it: connect ECONNREFUSED",
    );
  });

  it("is one line", () => {
    expect(describeFailure(new Error("one\n  two."))).to.equal("one two");
  });
});

describe("a SCRAM verifier", () => {
  it("is what SCRAM-SHA-256 makes of a password", async () => {
    // The salt and password of RFC 7677's example.
    const salt = Buffer.from("W22ZaJ0SNY7soEsUEjb6gQ==", "base64");
    expect(await scramVerifier("pencil", salt)).to.equal(
      "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=",
    );
  });
});

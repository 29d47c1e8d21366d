import type * as pulumi from "@pulumi/pulumi";
import * as random from "@pulumi/random";

/**
 * A password or key of letters and digits, made once and kept in the stack's state, encrypted.
 * `rules` is for those who are particular about what they take.
 */
export function generatedSecret(
  name: string,
  length: number,
  child: pulumi.CustomResourceOptions,
  rules: Pick<random.RandomPasswordArgs, "minNumeric" | "minLower"> = {},
): pulumi.Output<string> {
  return new random.RandomPassword(name, { length, special: false, ...rules }, child).result;
}

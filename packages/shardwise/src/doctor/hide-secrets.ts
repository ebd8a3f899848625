import type { Finding } from './host/finding.ts';

/** Variables whose values may be secret, or say what the user did not ask to be shown. */
const HIDDEN = /token|secret|key|pass|credential|auth|cookie|^SHARDWISE_|^NODE_OPTIONS$|_proxy$/i;
/** Shorter values would be found everywhere. */
const LEAST_LENGTH = 4;

/** Returns the findings with the names of variables in place of values that the environment has. */
export function hideSecrets(
  findings: readonly Finding[],
  environment: NodeJS.ProcessEnv,
): readonly Finding[] {
  const hidden = Object.entries(environment)
    .flatMap(([name, value]) =>
      HIDDEN.test(name) && value !== undefined && value.length >= LEAST_LENGTH
        ? [{ name, value }]
        : [],
    )
    // A value that contains another one is replaced first.
    .toSorted((a, b) => b.value.length - a.value.length);
  const hide = (text: string): string =>
    hidden.reduce((rest, { name, value }) => rest.replaceAll(value, () => `$${name}`), text);
  return findings.map((finding) => ({
    ...finding,
    found: hide(finding.found),
    ...(finding.todo !== undefined && { todo: hide(finding.todo) }),
    ...(finding.figures !== undefined && {
      figures: Object.fromEntries(
        Object.entries(finding.figures).map(([name, value]) => [
          name,
          typeof value === 'string' ? hide(value) : Array.isArray(value) ? value.map(hide) : value,
        ]),
      ),
    }),
  }));
}

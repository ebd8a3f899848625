/** Below the ports that Linux gives to clients (32768 and up) and above most services. */
const BASE = 20_000;
const RANGE = 10_000;

/**
 * The port on which all ranks of a job find each other where its launcher names none: `base + id %
 * range`, so that two jobs on one host rarely meet, and all ranks of one come to the same.
 */
export function derivedPort(id: number): number {
  return BASE + (id % RANGE);
}

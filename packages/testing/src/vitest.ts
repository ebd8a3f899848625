import { describe, test } from 'vitest';
import type { Suite, SuiteTest } from './suite/suite.ts';

export { toBeAllclose } from './compare/to-be-allclose.ts';

/** Makes vitest tests of a suite. Call it at the top level of a test file. */
export function testSuite({ name, tests }: Suite): void {
  describe(name, () => testGroup(tests, 0));
}

/** Makes groups of the tests, which have their first `depth` groups in common. */
function testGroup(tests: readonly SuiteTest[], depth: number): void {
  for (const [group, members] of Map.groupBy(tests, ({ groups }) => groups[depth])) {
    if (group !== undefined) {
      describe(group, () => testGroup(members, depth + 1));
      continue;
    }
    for (const { name, run, timeoutMs } of members) {
      test(
        name,
        async (context) => {
          const skipped = await run();
          if (skipped !== undefined) context.skip(skipped.reason);
        },
        timeoutMs,
      );
    }
  }
}

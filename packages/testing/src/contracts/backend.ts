import type { Backend } from '@shardwise/core/spec';
import { beforeAll, describe, test } from 'vitest';
import { listTests } from './backend/list-tests.ts';
import type { Skip } from './backend/list-tests.ts';

export interface BackendContractOptions<B extends Backend> {
  readonly name: string;
  readonly create: () => Promise<B>;
  /** Bytes that are allocated and not freed, where the backend can tell; adds the test of leaks. */
  readonly bytesInUse?: (backend: B) => number;
  readonly skip?: readonly Skip[];
}

/**
 * The tests that a backend must pass: every primitive op, the composites that it lists in
 * limits.native, whole programs, memory and order. Call it at the top level of a vitest file.
 */
export function backendContract<B extends Backend>(options: BackendContractOptions<B>): void {
  const { name, create, bytesInUse, skip = [] } = options;
  const groups = Map.groupBy(listTests({ bytesInUse, skip }), ({ group }) => group);
  describe(`${name} keeps the backend contract`, () => {
    let backend: B;
    beforeAll(async () => {
      backend = await create();
    });
    for (const [group, tests] of groups) {
      describe(group, () => {
        for (const { title, check, reasonToSkip } of tests) {
          test(title, async (context) => {
            const reason = reasonToSkip?.(backend);
            if (reason !== undefined) context.skip(reason);
            await check(backend);
          });
        }
      });
    }
  });
}

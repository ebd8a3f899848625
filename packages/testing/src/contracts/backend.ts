import type { Backend } from '@shardwise/core/spec';
import type { Suite, SuiteTest } from '../suite/suite.ts';
import { listTests } from './backend/list-tests.ts';
import type { Skip } from './backend/list-tests.ts';

/** What `backendSuite` tests. */
export interface BackendContract<B extends Backend> {
  readonly name: string;
  /** Called once, by the first test that runs. */
  readonly create: () => Promise<B>;
  /** Bytes that are allocated and not freed, if the backend can tell. With this, leaks are tested as well. */
  readonly bytesInUse?: (backend: B) => number;
  readonly skip?: readonly Skip[];
}

/**
 * The tests of a Backend: every primitive op, the composites that it lists in limits.native, whole programs,
 * memory and order.
 */
export function backendSuite<B extends Backend>(contract: BackendContract<B>): Suite {
  const { name, create, bytesInUse, skip = [] } = contract;
  let made: Promise<B> | undefined;
  const backendOf = (): Promise<B> => (made ??= create());
  return {
    name: `${name} keeps the contract of backends`,
    tests: listTests({ bytesInUse, skip }).map(
      ({ group, title, check, reasonToSkip }): SuiteTest => ({
        groups: [group],
        name: title,
        run: async () => {
          const backend = await backendOf();
          const reason = reasonToSkip?.(backend);
          if (reason !== undefined) return { reason };
          await check(backend);
          return undefined;
        },
      }),
    ),
  };
}

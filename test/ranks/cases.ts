import type { RankContext } from '@shardwise/testing/ranks';
import type { CasesTask } from '../support/run-cases.ts';

/** Runs all cases of a module one after another, so that its thread is started once. */
export async function main({
  rank,
  size,
  data: { module, cases },
}: RankContext<unknown, CasesTask>): Promise<readonly unknown[]> {
  const functions: Readonly<Record<string, (context: RankContext) => unknown>> = await import(
    module
  );
  const results: unknown[] = [];
  for (const { name = 'main', world, data } of cases) {
    const run = functions[name];
    if (run === undefined) throw new RangeError(`${module} exports no ${name}`);
    try {
      results.push(await run({ rank, size, world, data }));
    } catch (error) {
      throw new Error(`case ${JSON.stringify(data)}: ${String(error)}`, { cause: error });
    }
  }
  return results;
}

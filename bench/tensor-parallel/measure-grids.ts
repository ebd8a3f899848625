import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { dist } from 'shardwise';
import { compare, type Comparison, describe, layerMemory } from './compare.ts';
import { gridFormula } from './grid-formula.ts';
import { keepsScores } from './keeps-scores.ts';
import { type GridCase, gridCases, q, worldSizeOf } from './grids.ts';
import type { GridRankData, GridRound } from './messages.ts';

/** The measurements of a layer on one rank. */
export interface GridMeasure {
  readonly name: string;
  readonly worldSize: number;
  readonly parameters: Comparison;
  readonly activations: Comparison;
  readonly messages: Comparison;
}

/** Trains two and three layers on each grid. Throws if a layer differs from the formulas. */
export async function measureGrids(): Promise<readonly GridMeasure[]> {
  const found: GridMeasure[] = [];
  for (const each of gridCases) {
    const worldSize = worldSizeOf(each);
    const name = `${each.grid} on ${worldSize} ranks`;
    const shallow = await trained(each, 2);
    const deep = await trained(each, 3);
    const layer = layerMemory(shallow, deep, 1);
    const formula = gridFormula(each, await keepsScores());
    const named = (what: string): string => `${what} of a layer, ${name}`;
    found.push({
      name,
      worldSize,
      parameters: compare(named('parameters'), layer.parameterBytes, formula.parameterBytes),
      activations: compare(named('activations'), layer.activationBytes, formula.activationBytes),
      messages: compare(
        named('messages'),
        deep.messageBytes - shallow.messageBytes,
        formula.messageBytes,
      ),
    });
  }
  return found;
}

/** Returns what the first rank measured. All ranks measure the same. */
async function trained(task: GridCase, layers: number): Promise<GridRound> {
  const world = dist.transports.createThreadsWorld({
    size: worldSizeOf(task),
    arenaBytes: 64 * 2 ** 20,
  });
  const workers = Array.from(world.regions, (_, rank) => {
    const data: GridRankData = { ...task, layers, rank, world };
    return new Worker(new URL('./grid-rank.ts', import.meta.url), { workerData: data });
  });
  try {
    const answers = workers.map(async (worker): Promise<GridRound> => {
      const [answer]: GridRound[] = await once(worker, 'message');
      if (answer === undefined) throw new Error('a rank answered nothing');
      return answer;
    });
    const [first] = await Promise.all(answers);
    if (first === undefined) throw new RangeError('no ranks');
    return first;
  } finally {
    await Promise.all(workers.map((worker) => worker.terminate()));
  }
}

export function gridRows(measures: readonly GridMeasure[]): readonly (readonly [string, string])[] {
  return measures.flatMap(
    ({ name, parameters, activations, messages }) =>
      [
        [`a layer of ${name}, q = ${q}: messages of a step`, describe(messages)],
        ['  parameters of a rank', describe(parameters)],
        ['  activations of a rank', describe(activations)],
      ] as const,
  );
}

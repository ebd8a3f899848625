import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import {
  type ClusterDescription,
  describeModule,
  type ModulesDescription,
  oneDevice,
  predict,
  type Prediction,
  type RunLayout,
} from '@shardwise/planner';
import { openCluster } from '@shardwise/planner/node';
import { nn, zeros } from 'shardwise';
import { round } from './summary.ts';
import { buildModel } from './training.ts';
import type { Workload } from './workload.ts';

const run = promisify(execFile);

/** What a contestant of the strategies benchmark divides, and what it computes again. */
export interface PlannedStrategy {
  readonly zero: RunLayout['zero'];
  /** Whether the blocks of the model are computed again. */
  readonly checkpointing?: true;
}

/** The time of a step as it was planned, and as it was measured. */
export interface PlannedBeside {
  readonly plannedMs: number;
  readonly measuredMs: number;
  /** What was measured over what was planned. */
  readonly ratio: number;
  readonly terms: Prediction['terms'];
}

/** Plans steps of the workload with what `shardwise measure` has found on this machine. */
export class StrategiesPlan {
  readonly cluster: ClusterDescription;
  readonly #workload: Workload;
  readonly #model: ModulesDescription;

  constructor(workload: Workload, cluster: ClusterDescription) {
    const { batch, context } = workload;
    const ids = zeros([batch, context], 'i32');
    this.cluster = cluster;
    this.#workload = workload;
    this.#model = describeModule(buildModel(workload), [ids, ids], {
      loss: nn.functional.crossEntropy,
    });
  }

  beside({ zero, checkpointing }: PlannedStrategy, measuredMs: number): PlannedBeside {
    const ranks = this.cluster.devicesPerHost;
    const { batch, context } = this.#workload;
    const layout: RunLayout = {
      ...oneDevice,
      dataParallel: ranks,
      zero,
      shardRanks: zero === 0 ? 1 : ranks,
      rows: batch,
      precision: 'f32',
      recompute: this.#model.modules.map(({ path }) =>
        checkpointing && path.startsWith('blocks.') ? 'full' : 'none',
      ),
    };
    const workload = { batch: ranks * batch, sequence: context };
    const { stepSeconds, terms } = predict(this.#model, layout, workload, this.cluster);
    const plannedMs = 1000 * stepSeconds;
    return {
      plannedMs: round(plannedMs, 1),
      measuredMs: round(measuredMs, 1),
      ratio: round(measuredMs / plannedMs, 3),
      terms,
    };
  }
}

/** Measures this machine by the command, with as many ranks. */
export async function measureMachine(ranks: number): Promise<ClusterDescription> {
  const directory = await mkdtemp(join(tmpdir(), 'shardwise-bench-'));
  try {
    const file = join(directory, 'cluster.json');
    const main = fileURLToPath(new URL('../packages/shardwise/src/cli/main.ts', import.meta.url));
    const own = ['--conditions=@shardwise/source', main];
    await run(process.execPath, [...own, 'measure', file, '--nproc', String(ranks)], {
      env: { ...process.env, NODE_OPTIONS: '' },
    });
    return await openCluster(file);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** How many of the rows are close to their plan. */
export function describeCloseness(rows: readonly PlannedBeside[]): string {
  const within = (share: number): number =>
    rows.filter(({ ratio }) => Math.abs(ratio - 1) <= share).length;
  return `${within(0.1)} of ${rows.length} rows within 10 %, ${within(0.2)} within 20 %`;
}

import { fromData, nn, optim, type Tensor } from '@shardwise/core';
import { ddp, diloco, type DiLoCoOptions, localSgd, parallelize } from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { checkpoints } from 'shardwise';
import { join } from '../../../../test/ranks/join.ts';

/** A training of the model of tools/golden-diloco.py. */
export interface OuterTraining {
  /** The strategy. 'ddp' is data parallelism, to compare with. */
  readonly strategy: 'localSgd' | 'diloco' | 'ddp';
  readonly options: Partial<Omit<DiLoCoOptions, 'every'>> & { readonly every: number };
  readonly steps: number;
  /** Saves to this folder after so many steps, and goes on from it with a new model. */
  readonly interrupted?: { readonly folder: string; readonly after: number };
}

/** What a rank has after a training. */
export interface OuterObservations {
  readonly losses: readonly number[];
  readonly parameters: readonly number[];
  /** The parameters after `synchronize()`. Null for data parallelism. */
  readonly synchronized: readonly number[] | null;
  /** The values that ranks have in common after each step, by fragment. */
  readonly anchors: readonly (readonly number[])[];
}

export async function main(
  context: RankContext<unknown, readonly OuterTraining[]>,
): Promise<readonly OuterObservations[]> {
  const { group } = await join(context);
  const found: OuterObservations[] = [];
  for (const training of context.data) {
    found.push(await train(training, context.rank, group));
  }
  return found;
}

type Group = Awaited<ReturnType<typeof join>>['group'];

async function train(
  training: OuterTraining,
  rank: number,
  group: Group,
): Promise<OuterObservations> {
  const { steps, interrupted } = training;
  const losses: number[] = [];
  const anchors: (readonly number[])[] = [];
  let run = await begin(training);
  for (let step = 0; step < steps; step++) {
    if (interrupted?.after === step) {
      const states = run.outer === null ? {} : { outer: run.outer };
      const { model, optimizer } = run;
      await checkpoints.save(interrupted.folder, { step, model, optimizer, states }, { group });
      run = await begin(training);
      const checkpoint = await checkpoints.load(interrupted.folder);
      await checkpoints.loadModel(checkpoint, run.model);
      await checkpoints.loadOptimizer(checkpoint, run.model, run.optimizer);
      const again = run.outer === null ? {} : { outer: run.outer };
      await checkpoints.loadStates(checkpoint, again, { group });
    }
    const { parallel, optimizer, outer } = run;
    const { x, y } = batch(step, rank);
    optimizer.zeroGrad();
    const loss = parallel.forward(x).sub(y).square().mean();
    loss.backward();
    await optimizer.step();
    losses.push(await loss.item());
    const state = await outer?.stateDict();
    anchors.push(state?.fragments.flatMap(({ anchor }) => [...floats(anchor.bytes)]) ?? []);
  }
  const parameters = await valuesOf(run.model);
  await run.outer?.synchronize();
  const synchronized = run.outer === null ? null : await valuesOf(run.model);
  return { losses, parameters, synchronized, anchors };
}

async function begin({ strategy: name, options }: OuterTraining) {
  const model = new nn.Sequential(layer(3, 4, 0), new nn.Tanh(), layer(4, 4, 100));
  const strategy =
    name === 'ddp' ? null : name === 'localSgd' ? localSgd(options) : diloco(options);
  const parallel = await parallelize(model, strategy ?? ddp());
  const optimizer = new optim.SGD(model.parameters(), { lr: 0.1 });
  return { model, parallel, optimizer, outer: strategy?.outer ?? null };
}

/** A layer whose weights are sines of their place. */
function layer(rows: number, columns: number, first: number): nn.Linear {
  const made = new nn.Linear(rows, columns);
  const values = Float32Array.from({ length: (rows + 1) * columns }, (_, at) =>
    Math.sin(at + first),
  );
  const weights = rows * columns;
  made.weight.assign(fromData(values.slice(0, weights), [columns, rows], 'f32'));
  made.bias?.assign(fromData(values.slice(weights), [columns], 'f32'));
  return made;
}

const rows = 5;

function batch(step: number, rank: number): { readonly x: Tensor; readonly y: Tensor } {
  const x = Float32Array.from({ length: rows * 3 }, (_, at) => Math.sin(at + 7 * step + 3 * rank));
  const y = Float32Array.from({ length: rows * 4 }, (_, at) =>
    Math.cos(0.3 * at + 5 * step + rank),
  );
  return { x: fromData(x, [rows, 3], 'f32'), y: fromData(y, [rows, 4], 'f32') };
}

async function valuesOf(model: nn.Module): Promise<readonly number[]> {
  const values: number[] = [];
  for (const parameter of model.parameters())
    values.push(...Array.from(await parameter.data(), Number));
  return values;
}

function floats(bytes: Uint8Array): Float32Array {
  return new Float32Array(bytes.slice().buffer);
}

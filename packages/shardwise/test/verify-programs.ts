import { createMesh } from '@shardwise/collectives';
import { fromData, nn, optim, setRank, Tensor } from '@shardwise/core';
import { allReduce, type Model, type Optimizer, type Parameter } from '@shardwise/core/extend';
import { onRanks } from '@shardwise/testing/node';
import { expect } from 'vitest';
import { onCpu } from '../../../test/support/on-cpu.ts';
import { verify, type VerifiedRun } from '../src/verify/verify.ts';
import { Chain, drawProgram, type Program } from './draw-program.ts';

type Run = VerifiedRun<Chain, [Tensor], Tensor>;

/** The rows of a part of the batch. If they are uneven, later parts have more. */
function batchOf(
  { shape, losses, ignores }: Program,
  at: number,
  part: number,
): { x: Tensor; y: Tensor; rows: number } {
  const rows = losses === 'counted' ? 3 + part : 4;
  const value = (row: number, column: number): number =>
    Math.sin(row * 7.1 + column * 3.3 + at * 1.7 + part * 11.9);
  const x = Array.from({ length: rows * shape.inputs }, (_, index) =>
    value(Math.floor(index / shape.inputs), index % shape.inputs),
  );
  const y = Array.from({ length: rows }, (_, row) =>
    ignores && row === 0 ? -100 : (row * 5 + at + part) % shape.classes,
  );
  return {
    rows,
    x: fromData(Float32Array.from(x), [rows, shape.inputs], 'f32'),
    y: fromData(Int32Array.from(y), [rows], 'i32'),
  };
}

function stepOf(program: Program): (run: Run) => Promise<void> {
  const { losses, accumulates } = program;
  return async (run) => {
    const axes = run.mesh.axes.filter(({ name }) => program.shape.dataAxes.includes(name));
    const parts = axes.reduce((product, { size }) => product * size, 1);
    const part = axes.reduce(
      (place, { name, size }) => place * size + run.mesh.coordinate(name),
      0,
    );
    const { module } = run.model;
    run.optimizer.zeroGrad();
    for (let index = 0; index < accumulates; index++) {
      const { x, y, rows } = batchOf(program, run.step * 10 + index, part);
      const pass = (): void => {
        if (program.hasLoss) {
          const { model }: { model: Model<readonly unknown[], unknown> } = run;
          const loss = model.forward(x, y);
          if (!(loss instanceof Tensor)) throw new TypeError();
          loss.div(accumulates).backward();
          return;
        }
        const output = run.model.forward(x);
        if (losses === 'counted' && axes.length > 0) {
          // The mean over all rows: the ranks' sums, over the number of rows of all of them.
          const own = fromData(Float32Array.of(rows), [], 'f32');
          const all = axes.reduce((sum, { name }) => allReduce(sum, name), own);
          const sum = nn.functional.crossEntropy(output, y, { reduction: 'sum' });
          sum.mul(parts).div(all).div(accumulates).backward();
          return;
        }
        const loss = nn.functional.crossEntropy(output, y);
        loss.add(nn.auxiliaryLoss(module)).div(accumulates).backward();
        if (losses === 'two') output.square().mean().mul(0.1).backward();
      };
      if (index < accumulates - 1) run.model.noSync(pass);
      else pass();
    }
    if (program.shape.experts?.bias === true) nn.updateExpertBias(module, program.shape.dataAxes);
    await run.optimizer.step();
  };
}

const optimizers: Record<Program['optimizer'], (parameters: readonly Parameter[]) => Optimizer> = {
  SGD: (parameters) => new optim.SGD([...parameters], { lr: 0.1, momentum: 0.9 }),
  Adam: (parameters) => new optim.Adam([...parameters], { lr: 1e-2 }),
  AdamW: (parameters) => new optim.AdamW([...parameters], { lr: 1e-2 }),
};

/** Fails if verify finds something in the right programs of these seeds. */
export async function expectNothingFound(ranks: number, seeds: readonly number[]): Promise<void> {
  for (const seed of seeds) {
    const program = drawProgram(seed, ranks);
    const { axes, steps, strategy } = program;
    const verifications = await onRanks(
      ranks,
      async ({ group, device }) => {
        setRank({ device, mesh: await createMesh(group, axes) });
        const build = (): Chain & Model<[Tensor], Tensor> => new Chain(program.shape);
        const optimizer = optimizers[program.optimizer];
        const options = { steps, optimizer, seed };
        return verify<Chain, [Tensor], Tensor>(build, stepOf(program), strategy, options);
      },
      onCpu,
    );
    const text = `program ${seed}: ${JSON.stringify({ ...program, strategy: undefined })}`;
    for (const { finding, compared } of verifications) {
      expect(finding, text).toBeNull();
      expect(compared, text).toBeGreaterThan(10);
    }
  }
}

/** The numbers from `first` to `end` - 1. */
export function seedsFrom(first: number, end: number): readonly number[] {
  return Array.from({ length: end - first }, (_, index) => first + index);
}

/** The number of ranks on which the program of a seed below 100 is verified. */
export function ranksOf(seed: number): 2 | 4 {
  return seed < 60 ? 2 : 4;
}

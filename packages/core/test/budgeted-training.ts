import { cpu } from '@shardwise/backend-cpu';
import { checkpoint, type CheckpointOptions, type CheckpointPolicy } from '../src/nn/checkpoint.ts';
import { dropout } from '../src/nn/functional/dropout.ts';
import { Linear } from '../src/nn/layers/linear.ts';
import { LayerNorm } from '../src/nn/norm/layer-norm.ts';
import type { Parameter } from '../src/nn/parameter/parameter.ts';
import { AdamW } from '../src/optim.ts';
import { manualSeed } from '../src/random/keys.ts';
import { setRank } from '../src/rank.ts';
import type { PageStore } from '../src/paging/page.ts';
import { activationMemoryBudget } from '../src/recomputation/activation-memory-budget.ts';
import type { DeviceSpeed } from '../src/recomputation/device-speed.ts';
import type { RecomputationChoice } from '../src/recomputation/recomputation-choice.ts';
import { fromData } from '../src/tensor/create.ts';
import type { Tensor } from '../src/tensor/tensor.ts';

export const [rows, width, depth] = [128, 32, 6];
const steps = 2;

export class Block {
  readonly #norm = new LayerNorm(width);
  readonly #up = new Linear(width, 4 * width);
  readonly #down = new Linear(4 * width, width);

  forward(x: Tensor): Tensor {
    const hidden = this.#up.forward(this.#norm.forward(x)).gelu();
    return x.add(dropout(this.#down.forward(hidden), 0.1));
  }

  parameters(): readonly Parameter[] {
    return [this.#norm, this.#up, this.#down].flatMap((layer) => layer.parameters());
  }
}

export type Forward = (blocks: readonly Block[], x: Tensor) => Tensor;
export const plainly: Forward = (blocks, x) => blocks.reduce((y, block) => block.forward(y), x);
export const eachBlock =
  (policy: CheckpointPolicy): Forward =>
  (blocks, x) =>
    blocks.reduce((y, block) => checkpoint(() => block.forward(y), { policy }), x);

/** Trains for some steps. The bytes are those of a pass at its peak, besides parameters and moments. */
export async function train(forward: Forward): Promise<{ values: unknown; passBytes: number }> {
  const device = await cpu();
  setRank({ device });
  manualSeed(1);
  const blocks = Array.from({ length: depth }, () => new Block());
  const parameters = blocks.flatMap((block) => block.parameters());
  const optimizer = new AdamW([...parameters], { lr: 0.01 });
  const losses: number[] = [];
  for (let step = 0; step < steps; step++) {
    optimizer.zeroGrad();
    const numbers = Float32Array.from({ length: rows * width }, (_, i) => Math.sin(i + step));
    const loss = forward(blocks, fromData(numbers, [rows, width], 'f32'))
      .square()
      .mean();
    loss.backward();
    await optimizer.step();
    losses.push(await loss.item());
  }
  const values = await Promise.all(parameters.map((parameter) => parameter.data()));
  const statesBytes = parameters.reduce((sum, { numel }) => sum + 12 * numel, 0);
  return { values: [losses, values], passBytes: device.usage().peakBytes - statesBytes };
}

interface Budgeted {
  readonly values: unknown;
  readonly passBytes: number;
  readonly choices: readonly RecomputationChoice[];
}

/** Trains with a budget around all blocks, or around each, and with pages if there are some. */
export async function trainWithin(
  bytes: number,
  { isPerBlock = false, pages, ...speeds }: TrainWithinOptions = {},
): Promise<Budgeted> {
  const choices: RecomputationChoice[] = [];
  const onChoice = (choice: RecomputationChoice): number => choices.push(choice);
  const policy = activationMemoryBudget({ bytes, onChoice, ...speeds });
  const options: CheckpointOptions = pages === undefined ? { policy } : { policy, pages };
  const forward: Forward = (blocks, x) =>
    isPerBlock
      ? blocks.reduce((y, block) => checkpoint(() => block.forward(y), options), x)
      : checkpoint(() => plainly(blocks, x), options);
  return { ...(await train(forward)), choices };
}

interface TrainWithinOptions extends Partial<DeviceSpeed> {
  readonly isPerBlock?: boolean;
  readonly pages?: PageStore;
}

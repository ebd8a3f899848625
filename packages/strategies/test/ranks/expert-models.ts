import { fromData, nn, optim, type Tensor } from '@shardwise/core';

export const features = 8;
/** The number of rows of all ranks together. */
export const rows = 16;
export const steps = 5;

/** A model with two layers of experts, a head that shares the weight of the first layer, and norms. */
export class ExpertModel extends nn.Module {
  first = new nn.Linear(features, features);
  norm = new nn.LayerNorm(features);
  experts: nn.MixtureOfExperts;
  others: nn.MixtureOfExperts;

  constructor(options: Omit<nn.MixtureOfExpertsOptions, 'shared'>) {
    super();
    this.experts = new nn.MixtureOfExperts(features, 12, 8, options);
    this.others = new nn.MixtureOfExperts(features, 6, 4, {
      ...options,
      activation: 'swiglu',
      shared: new nn.Linear(features, features),
    });
  }

  forward(x: Tensor): Tensor {
    const hidden = this.first.forward(x).tanh();
    const mixed = hidden.add(this.experts.forward(this.norm.forward(hidden)));
    const again = mixed.add(this.others.forward(this.norm.forward(mixed)));
    return nn.functional.linear(again, this.first.weight);
  }
}

/** Returns the rows of a batch from `start` on. Shape: -> [count, features]. */
export function batch(step: number, start: number, count: number): Tensor {
  const data = Float32Array.from({ length: count * features }, (_, i) =>
    Math.sin((start * features + i) * 1.3 + step * 0.7),
  );
  return fromData(data, [count, features], 'f32');
}

/** Options that balance the experts over the ranks of these axes. */
export function balanced(axes: readonly string[]): nn.MixtureOfExpertsOptions {
  const balance = { kind: 'megatron', coefficient: 0.1 } as const;
  return { gate: nn.topKGate(), balance, zLoss: 0.01, bias: { rate: 0.01 }, axes };
}

export const settings = { lr: 0.01 };

/** The loss and the norm of the gradients of one update. */
export interface Step {
  readonly loss: number;
  readonly norm: number;
}

/** Trains with the loss of this rank's rows, which begin at `start`. */
export async function trainSteps(
  model: ExpertModel,
  forward: (x: Tensor) => Tensor,
  { start, count }: { readonly start: number; readonly count: number },
): Promise<Step[]> {
  const optimizer = new optim.AdamW(model.parameters(), settings);
  const found: Step[] = [];
  for (let step = 0; step < steps; step++) {
    optimizer.zeroGrad();
    const x = batch(step, start, count);
    const loss = forward(x).sub(x.mul(0.5)).square().mean().add(nn.auxiliaryLoss(model));
    loss.backward();
    const norm = optim.clipGradNorm(model.parameters(), 0.5);
    nn.updateExpertBias(model);
    await optimizer.step();
    found.push({ loss: await loss.item(), norm: await norm.item() });
  }
  return found;
}

/** A model whose ranks may have parts of sequences between its layers. */
export class SequenceModel extends nn.Module {
  first = new nn.Linear(features, features);
  norm = new nn.LayerNorm(features);
  experts: nn.MixtureOfExperts;
  last = new nn.Linear(features, features);

  /** `over` are the mesh axes whose ranks have parts of the same sequences. */
  constructor(over: true | readonly string[]) {
    super();
    this.experts = new nn.MixtureOfExperts(features, 12, 4, {
      balance: { kind: 'megatron', coefficient: 0.1, bySequence: over },
      zLoss: 0.01,
      bias: { rate: 0.01 },
      shared: new nn.Linear(features, features),
    });
  }

  /** Shape: x [B, T, C] -> [B, T, C]. */
  forward(x: Tensor): Tensor {
    const hidden = this.first.forward(x).tanh();
    return this.last.forward(hidden.add(this.experts.forward(this.norm.forward(hidden))));
  }
}

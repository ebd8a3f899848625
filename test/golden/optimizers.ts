import { type nn, optim } from 'shardwise';

/** The learning rate of `adamw`. */
export const adamwLearningRate = 0.01;

/** The optimizers of tools/golden-training.py. */
export const goldenOptimizers = {
  sgd: (parameters: nn.Parameter[]) =>
    new optim.SGD(parameters, { lr: 0.05, momentum: 0.9, nesterov: true, weightDecay: 0.01 }),
  adamw: (parameters: nn.Parameter[]) =>
    new optim.AdamW(parameters, { lr: adamwLearningRate, betas: [0.9, 0.99], weightDecay: 0.05 }),
} satisfies Record<string, (parameters: nn.Parameter[]) => optim.Optimizer>;

export type OptimizerName = keyof typeof goldenOptimizers;

export const optimizerNames = ['sgd', 'adamw'] as const satisfies readonly OptimizerName[];

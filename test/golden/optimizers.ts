import { AdamW, SGD, type Optimizer, type Parameter } from 'shardwise';

/** The learning rate of `adamw`. */
export const adamwLearningRate = 0.01;

/** The optimizers of tools/golden-training.py. */
export const goldenOptimizers = {
  sgd: (parameters: Parameter[]) =>
    new SGD(parameters, { lr: 0.05, momentum: 0.9, nesterov: true, weightDecay: 0.01 }),
  adamw: (parameters: Parameter[]) =>
    new AdamW(parameters, { lr: adamwLearningRate, betas: [0.9, 0.99], weightDecay: 0.05 }),
} satisfies Record<string, (parameters: Parameter[]) => Optimizer>;

export type OptimizerName = keyof typeof goldenOptimizers;

export const optimizerNames = ['sgd', 'adamw'] as const satisfies readonly OptimizerName[];

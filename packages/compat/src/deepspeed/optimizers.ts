import { nearestName, type Tensor } from '@shardwise/core/extend';
import { ConfigError, type dist, optim } from 'shardwise';
import { z } from 'zod';
import type { Values } from '../config/key-table.ts';

/** The optimizer of an engine: one of the library, whose states may be outside of the device. */
export type EngineOptimizer = optim.Optimizer | dist.OffloadedOptimizer<optim.Optimizer>;

/** Makes the optimizer of a model whose parameters are divided as the configuration says. */
export type OptimizerOf = (parameters: readonly Tensor[]) => optim.Optimizer;

/** An optimizer that a configuration names. */
export interface NamedOptimizer {
  readonly make: OptimizerOf;
  /** Whether it averages over the ranks itself, and needs the gradients of this rank alone. */
  readonly averages: boolean;
  /** How its numbers differ from DeepSpeed's, if they do. */
  readonly note?: string;
}

const lr = z.number().nonnegative().default(1e-3);
const betas = z.tuple([z.number(), z.number()]).default([0.9, 0.999]);
const eps = z.number().nonnegative().default(1e-8);
const decay = z.number().nonnegative().default(0);
const flag = z.boolean();
/** Settings of how DeepSpeed's devices compute the same numbers. */
const kernels = {
  torch_adam: flag.optional(),
  fused: flag.optional(),
  foreach: flag.nullish(),
  set_grad_none: flag.optional(),
  fp32_optimizer_states: z.literal(true).optional(),
  bias_correction: z.literal(true).optional(),
};
const moments = { lr, betas, eps, weight_decay: decay };

const adam = z.strictObject({
  ...moments,
  ...kernels,
  // DeepSpeed's Adam decays weights as AdamW does, unless it is told otherwise.
  adam_w_mode: flag.default(true),
  amsgrad: flag.default(false),
});
const adamW = z.strictObject({ ...adam.shape, adam_w_mode: z.literal(true).optional() });
const oneBitAdam = z.strictObject({
  ...moments,
  ...kernels,
  freeze_step: z.int().positive().default(100_000),
  // Messages go over the group of the ranks, whatever it is made of.
  cuda_aware: flag.optional(),
  comm_backend_name: z.string().optional(),
});
const lamb = z.strictObject({
  ...moments,
  bias_correction: z.literal(true).optional(),
  eps_inside_sqrt: z.literal(false).optional(),
  amsgrad: z.literal(false).optional(),
});
const lion = z.strictObject({
  lr: z.number().nonnegative().default(1e-4),
  betas: z.tuple([z.number(), z.number()]).default([0.9, 0.99]),
  weight_decay: decay,
});
const sgd = z.strictObject({
  lr,
  momentum: z.number().default(0),
  dampening: z.number().default(0),
  weight_decay: decay,
  nesterov: flag.default(false),
});
const adagrad = z.strictObject({
  lr: z.number().nonnegative().default(1e-2),
  eps: z.number().nonnegative().default(1e-10),
  weight_decay: decay,
});

const makers: Readonly<Record<string, (params: Values) => NamedOptimizer>> = {
  Adam: (params) => adamOf(read('Adam', adam, params)),
  AdamW: (params) => adamOf({ ...read('AdamW', adamW, params), adam_w_mode: true }),
  OneBitAdam: (params) => {
    const own = read('OneBitAdam', oneBitAdam, params);
    const settings = { ...momentsOf(own), freezeStep: own.freeze_step };
    return { make: (list) => new optim.OneBitAdam(list, settings), averages: true };
  },
  Lamb: (params) => {
    const settings = momentsOf(read('Lamb', lamb, params));
    const note =
      'Lamb: the ratio of norms has no bounds, as in the paper, where DeepSpeed keeps it in [0.01, 10]';
    return { make: (list) => new optim.Lamb(list, settings), averages: false, note };
  },
  Lion: (params) => {
    const { weight_decay: weightDecay, ...own } = read('Lion', lion, params);
    return { make: (list) => new optim.Lion(list, { ...own, weightDecay }), averages: false };
  },
  SGD: (params) => {
    const { weight_decay: weightDecay, ...own } = read('SGD', sgd, params);
    return { make: (list) => new optim.SGD(list, { ...own, weightDecay }), averages: false };
  },
  Adagrad: (params) => {
    const { weight_decay: weightDecay, ...own } = read('Adagrad', adagrad, params);
    return { make: (list) => new optim.Adagrad(list, { ...own, weightDecay }), averages: false };
  },
};

/** Optimizers of DeepSpeed that the library does not have, and what to do. */
const missing: Readonly<Record<string, string>> = {
  Muon: 'Pass optimizer: (parameters) => …, with an optim.Muon for the matrices',
  OneBitLamb: 'Use OneBitAdam, or Lamb',
  ZeroOneAdam: 'Use OneBitAdam',
  MuAdam: 'Pass optimizer: (parameters) => …, with groups that have their own lr',
  MuAdamW: 'Pass optimizer: (parameters) => …, with groups that have their own lr',
  MuSGD: 'Pass optimizer: (parameters) => …, with groups that have their own lr',
};

/** Returns the optimizer of a type of DeepSpeed, in any case of letters. Throws ConfigError. */
export function namedOptimizer(type: string, params: Values): NamedOptimizer {
  const name = nameAmong(Object.keys(makers), type);
  const make = name === undefined ? undefined : makers[name];
  if (make !== undefined) return make(params);
  const absent = nameAmong(Object.keys(missing), type);
  const nearest = nearestName(type, Object.keys(makers));
  throw new ConfigError(
    {
      asked: `optimizer.type ${type}`,
      found:
        absent === undefined ? 'no such optimizer' : 'an optimizer that the library does not have',
      todo:
        absent === undefined
          ? `Write ${nearest ?? `one of ${Object.keys(makers).join(', ')}`}, or pass optimizer: (parameters) => …`
          : (missing[absent] ?? ''),
    },
    { path: 'optimizer.type', type, nearest },
  );
}

function nameAmong(names: readonly string[], type: string): string | undefined {
  return names.find((name) => name.toLowerCase() === type.toLowerCase());
}

interface Moments {
  readonly lr: number;
  readonly betas: [number, number];
  readonly eps: number;
  readonly weight_decay: number;
}

function momentsOf({ lr, betas, eps, weight_decay: weightDecay }: Moments): {
  lr: number;
  betas: [number, number];
  eps: number;
  weightDecay: number;
} {
  return { lr, betas, eps, weightDecay };
}

function adamOf(own: Moments & { adam_w_mode: boolean; amsgrad: boolean }): NamedOptimizer {
  const settings = { ...momentsOf(own), amsgrad: own.amsgrad };
  const make: OptimizerOf = own.adam_w_mode
    ? (list) => new optim.AdamW(list, settings)
    : (list) => new optim.Adam(list, settings);
  return { make, averages: false };
}

function read<Schema extends z.ZodObject>(
  type: string,
  schema: Schema,
  params: Values,
): z.infer<Schema> {
  if ('max_grad_norm' in params) {
    throw new ConfigError(
      {
        asked: 'optimizer.params.max_grad_norm',
        found: 'a limit of the norm of all gradients, which is no setting of an optimizer',
        todo: 'Write it as gradient_clipping, beside optimizer',
      },
      { path: 'optimizer.params.max_grad_norm' },
    );
  }
  const result = schema.safeParse(params);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  const key = issue?.code === 'unrecognized_keys' ? issue.keys[0] : issue?.path.join('.');
  const path = `optimizer.params.${key ?? ''}`;
  const names = Object.keys(schema.shape);
  const nearest = issue?.code === 'unrecognized_keys' ? nearestName(key ?? '', names) : undefined;
  throw new ConfigError(
    {
      asked: `${path} of ${type}`,
      found: issue?.code === 'unrecognized_keys' ? 'no such parameter' : (issue?.message ?? ''),
      todo: nearest === undefined ? `The parameters are ${names.join(', ')}` : `Write ${nearest}`,
    },
    { path, nearest },
    { cause: result.error },
  );
}

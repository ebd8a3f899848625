import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { interpreter } from '@shardwise/testing';
import * as sw from 'shardwise';
import { beforeEach, describe, expect, test } from 'vitest';
import { repository } from './support/documents.ts';

const packages = [
  'core',
  'collectives',
  'strategies',
  'parameter-server',
  'data',
  'backend-cpu',
  'models',
  'serve',
  'planner',
  'compat',
  'shardwise',
] as const;

/** Options that users never write. Type-checked code in the same package makes them. */
const internal: ReadonlySet<string> = new Set([
  'AttendToOptions',
  'CachedAttentionOptions',
  'GradBucketOptions',
  'LayerParameterOptions',
]);

function exportedOptions(name: string): string[] {
  const indexes = globSync(
    `packages/${name}/src/{index,nn,nn/functional,optim,data,extend,node}.ts`,
    { cwd: repository },
  );
  const text = indexes.map((file) => readFileSync(join(repository, file), 'utf8')).join('\n');
  return [
    ...new Set([...text.matchAll(/\b([A-Z]\w*Options)\b/g)].map(([, option = '']) => option)),
  ];
}

const sources = globSync(`packages/{${packages.join()}}/src/**/*.ts`, { cwd: repository })
  .map((file) => readFileSync(join(repository, file), 'utf8'))
  .join('\n');

describe.each(packages)('options of %s', (name) => {
  test('all have a table of what they may be, which checkOptions is given', () => {
    const without = exportedOptions(name)
      .filter((options) => !internal.has(options))
      .filter((options) => !new RegExp(`OptionRules<[^=;]*\\b${options}\\b`).test(sources));
    expect(without).toEqual([]);
  });
});

const { functional } = sw.nn;
const image = (): sw.Tensor => sw.ones([1, 2, 8, 8]);
const rows = (): sw.Tensor => sw.ones([2, 3]);
const weight = (): sw.nn.Parameter => new sw.nn.Parameter(new Float32Array(4), [4]);

/** Mistakes that plain JavaScript allows: a call with wrong options, and what the error says. */
const mistakes: Readonly<
  Record<string, readonly [call: (wrong: never) => unknown, options: unknown, says: string]>
> = {
  'AdamW({ weight_decay })': [
    (wrong) => new sw.optim.AdamW([weight()], wrong),
    { weight_decay: 0.1 },
    'AdamW with the option weight_decay: no option of this name. Write weightDecay; the options are lr, betas, eps, weightDecay',
  ],
  'AdamW(params, 0.001)': [
    (wrong) => new sw.optim.AdamW([weight()], wrong),
    0.001,
    'AdamW with 0.001 in the place of its options: no object of options by name. Write { lr: … }',
  ],
  "SGD({ lr: '0.1' })": [
    (wrong) => new sw.optim.SGD([weight()], wrong),
    { lr: '0.1' },
    "SGD with lr: '0.1': a value that is not a number",
  ],
  'Adam({ betas: 0.9 })': [
    (wrong) => new sw.optim.Adam([weight()], wrong),
    { betas: 0.9 },
    'Adam with betas: 0.9: a value that is not a list of 2 numbers',
  ],
  'a parameter group with { weight_decay }': [
    (wrong) => new sw.optim.SGD([{ params: [weight()], lr: 1 }, wrong]),
    { params: [weight()], weight_decay: 0 },
    'SGD, parameter group 1, with the option weight_decay: no option of this name. Write weightDecay',
  ],
  'addParamGroup({ momentums })': [
    (wrong) => new sw.optim.SGD([weight()]).addParamGroup(wrong),
    { params: [weight()], momentums: 0.9 },
    'with the option momentums: no option of this name. Write momentum',
  ],
  'SGD(model) instead of its parameters': [
    (wrong) => new sw.optim.SGD(wrong),
    new sw.nn.Linear(1, 1),
    'SGD: a Linear where parameters are expected. Pass model.parameters()',
  ],
  'SGD(model.namedParameters())': [
    (wrong) => new sw.optim.SGD(wrong),
    [['weight', weight()]],
    'SGD: an array of 2 where parameters are expected',
  ],
  'SGD of a computed tensor': [
    (wrong) => new sw.optim.SGD([wrong]),
    weight().mul(2),
    'SGD of a tensor of shape [4]: it is computed by mul, and has no contents of its own to update',
  ],
  'clipGradNorm({ norm_type })': [
    (wrong) => sw.optim.clipGradNorm([weight()], 1, wrong),
    { norm_type: 1 },
    'the option norm_type: no option of this name. Write normType',
  ],
  'DynamicLossScaler({ initScale })': [
    (wrong) => new sw.optim.DynamicLossScaler(wrong),
    { initScale: 1 },
    'Write initialScale',
  ],
  "Conv2d({ padding: 'same' })": [
    (wrong) => new sw.nn.Conv2d(2, 2, 3, wrong),
    { padding: 'same' },
    "Conv2d with padding: 'same': a value that is not a whole number from 0, or two of them, [height, width]",
  ],
  'Conv2d(2, 2, 3, 1)': [
    (wrong) => new sw.nn.Conv2d(2, 2, 3, wrong),
    1,
    'Conv2d with 1 in the place of its options',
  ],
  'functional.conv2d({ strides })': [
    (wrong) => functional.conv2d(image(), sw.ones([2, 2, 3, 3]), null, wrong),
    { strides: 2 },
    'conv2d with the option strides: no option of this name. Write stride',
  ],
  'maxPool2d({ ceilMode })': [
    (wrong) => functional.maxPool2d(image(), 2, wrong),
    { ceilMode: true },
    'maxPool2d with the option ceilMode: no option of this name. Use stride, padding, dilation',
  ],
  'MaxPool2d(2, 2)': [
    (wrong) => new sw.nn.MaxPool2d(2, wrong),
    2,
    'MaxPool2d with 2 in the place of its options: no object of options by name. Write { stride: … }',
  ],
  'AvgPool2d({ countIncludePad })': [
    (wrong) => new sw.nn.AvgPool2d(2, wrong),
    { countIncludePad: false },
    'AvgPool2d with the option countIncludePad',
  ],
  'Linear(2, 3, false)': [
    (wrong) => new sw.nn.Linear(2, 3, wrong),
    false,
    'Linear with false in the place of its options: no object of options by name. Write { bias: … }',
  ],
  "Linear('2', 3)": [
    (wrong) => new sw.nn.Linear(wrong, 3),
    '2',
    "Linear with inFeatures: '2': a value that is not a whole number from 0",
  ],
  'Embedding({ padding_idx })': [
    (wrong) => new sw.nn.Embedding(3, 2, wrong),
    { padding_idx: 0 },
    'Write paddingIdx',
  ],
  'BatchNorm2d({ track_running_stats })': [
    (wrong) => new sw.nn.BatchNorm2d(3, wrong),
    { track_running_stats: false },
    'BatchNorm2d with the option track_running_stats: no option of this name. Use eps, momentum, affine',
  ],
  'LayerNorm(4, 1e-6)': [
    (wrong) => new sw.nn.LayerNorm(4, wrong),
    1e-6,
    'LayerNorm with 0.000001 in the place of its options',
  ],
  'LayerNorm([4])': [
    (wrong) => new sw.nn.LayerNorm(wrong),
    [4],
    'LayerNorm with size: [4]: a value that is not a whole number from 0',
  ],
  'Dropout({ p: 0.1 })': [
    (wrong) => new sw.nn.Dropout(wrong),
    { p: 0.1 },
    'dropout with probability: an object: a value that is not a number from 0 to 1',
  ],
  "GELU('exact')": [(wrong) => new sw.nn.GELU(wrong), 'exact', 'one of none, tanh'],
  'MultiheadAttention({ numHeads: 2 }) in the place of the heads': [
    (wrong) => new sw.nn.MultiheadAttention(4, wrong),
    { numHeads: 2 },
    'MultiheadAttention with numHeads: an object: a value that is not a whole number from 1',
  ],
  'forward(x, { isCausal })': [
    (wrong) => new sw.nn.MultiheadAttention(4, 2).forward(sw.ones([1, 3, 4]), wrong),
    { isCausal: true },
    'MultiheadAttention with the option isCausal: no option of this name. Write causal',
  ],
  'scaledDotProductAttention({ attnMask })': [
    (wrong) => {
      const x = sw.ones([1, 2, 3, 4]);
      return functional.scaledDotProductAttention(x, x, x, wrong);
    },
    { attnMask: sw.ones([3, 3]) },
    'Write mask',
  ],
  "crossEntropy('sum')": [
    (wrong) => functional.crossEntropy(rows(), sw.tensor([0, 1], 'i32'), wrong),
    'sum',
    "crossEntropy with 'sum' in the place of its options",
  ],
  'crossEntropy({ label_smoothing })': [
    (wrong) => functional.crossEntropy(rows(), sw.tensor([0, 1], 'i32'), wrong),
    { label_smoothing: 0.1 },
    'Write labelSmoothing',
  ],
  "mseLoss({ reduction: 'batchmean' })": [
    (wrong) => functional.mseLoss(rows(), rows(), wrong),
    { reduction: 'batchmean' },
    "mseLoss with reduction: 'batchmean': a value that is not one of mean, sum, none",
  ],
  'sum({ keepdim })': [(wrong) => rows().sum(1, wrong), { keepdim: true }, 'Write keepDim'],
  'mean(1, true)': [
    (wrong) => rows().mean(1, wrong),
    true,
    'mean with true in the place of its options',
  ],
  'variance({ unbiased })': [
    (wrong) => rows().variance(1, wrong),
    { unbiased: false },
    'variance with the option unbiased: no option of this name. Use keepDim, correction',
  ],
  'matmul({ transpose_b })': [
    (wrong) => rows().matmul(rows(), wrong),
    { transpose_b: true },
    'Write transposeB',
  ],
  'Parameter({ requires_grad })': [
    (wrong) => new sw.nn.Parameter(new Float32Array(1), [1], wrong),
    { requires_grad: false },
    'a Parameter with the option requires_grad: no option of this name. Write requiresGrad',
  ],
  "Parameter({ dtype: 'float32' })": [
    (wrong) => new sw.nn.Parameter(new Float32Array(1), [1], wrong),
    { dtype: 'float32' },
    "a Parameter with dtype: 'float32': a value that is not one of f64, f32, f16, bf16, i64, i32, u8, bool",
  ],
  'loadStateDict({ Strict })': [
    (wrong) => new sw.nn.Linear(1, 1).loadStateDict({}, wrong),
    { Strict: false },
    'Write strict',
  ],
  'checkpoint({ pages: true })': [
    (wrong) => sw.nn.checkpoint(() => rows(), wrong),
    { pages: true },
    'checkpoint with pages: true: a value that is not an object',
  ],
  'activationMemoryBudget({ memoryBytes })': [
    (wrong) => sw.nn.activationMemoryBudget(wrong),
    { memoryBytes: 1e9 },
    'Write bytes',
  ],
  'DataLoader({ batch_size })': [
    (wrong) => new sw.data.DataLoader(wrong),
    {
      dataset: new sw.data.ArrayDataset({ x: sw.data.ndArray(new Float32Array(2)) }),
      batch_size: 2,
    },
    'DataLoader with the option batch_size: no option of this name. Write batchSize',
  ],
  'DataLoader(dataset)': [
    (wrong) => new sw.data.DataLoader(wrong),
    new sw.data.TextDataset(new Uint8Array(9), { contextLength: 4 }),
    'DataLoader with a TextDataset in the place of its options',
  ],
  'DistributedSampler({ world })': [
    (wrong) => new sw.data.DistributedSampler(wrong),
    { dataset: 4, numReplicas: 2, rank: 0, drop_last: true },
    'Write dropLast',
  ],
  'setRank({ backend })': [
    (wrong) => sw.setRank(wrong),
    { backend: interpreter() },
    'setRank with the option backend',
  ],
  'allReduce({ timeout })': [
    (wrong) =>
      sw.dist.singleGroup().allReduce({ bytes: new Uint8Array(4), dtype: 'f32' }, 'sum', wrong),
    { timeout: 5 },
    'allReduce with the option timeout: no option of this name. Write timeoutMs',
  ],
  'allReduce({ timeoutMs: -1 })': [
    (wrong) =>
      sw.dist.singleGroup().allReduce({ bytes: new Uint8Array(4), dtype: 'f32' }, 'sum', wrong),
    { timeoutMs: -1 },
    'allReduce with timeoutMs: -1: a value that is not a number of milliseconds above 0',
  ],
  'sendObject({ tags })': [
    (wrong) => sw.dist.sendObject(sw.dist.singleGroup(), 1, 0, wrong),
    { tags: 1 },
    'Write tag',
  ],
  'allGatherObject({ maxByte })': [
    (wrong) => sw.dist.allGatherObject(sw.dist.singleGroup(), 1, wrong),
    { maxByte: 1 },
    'allGatherObject with the option maxByte: no option of this name. Write maxBytes',
  ],
  'createGroup({ verfy })': [
    (wrong) =>
      sw.dist.createGroup(sw.dist.transports.createLoopbackTransports(1)[0] ?? never(), wrong),
    { verfy: false },
    'Write verify',
  ],
  'ddp({ bucket_bytes })': [
    (wrong) => sw.dist.ddp(wrong),
    { bucket_bytes: 1 },
    'Write bucketBytes',
  ],
  "fsdp({ reshardAfterForward: 'yes' })": [
    (wrong) => sw.dist.fsdp(wrong),
    { reshardAfterForward: 'yes' },
    "fsdp with reshardAfterForward: 'yes': a value that is not true or false or a number",
  ],
  'zero(3)': [
    (wrong) => sw.dist.zero(wrong),
    3,
    'zero with 3 in the place of its options: no object of options by name. Write { stage: … }',
  ],
  'tensorParallel({ axes })': [
    (wrong) => sw.dist.tensorParallel({}, wrong),
    { axes: 'tp' },
    'Write axis',
  ],
  "colwiseParallel({ output: 'shard' })": [
    (wrong) => sw.dist.styles.colwiseParallel(wrong),
    { output: 'shard' },
    "colwiseParallel with output: 'shard': a value that is not 'invariant', 'replicate', 'partial' or shard(dim)",
  ],
  'cpu({ thread })': [
    (wrong) => sw.cpu(wrong),
    { thread: 2 },
    'cpu with the option thread: no option of this name. Write threads',
  ],
  'init({ backend })': [
    (wrong) => sw.init(wrong),
    { backend: interpreter() },
    'init with the option backend',
  ],
  'saveCheckpoint({ optimiser })': [
    (wrong) => sw.checkpoints.save('/nowhere', wrong),
    { step: 1, model: {}, optimiser: {} },
    'saveCheckpoint with the option optimiser: no option of this name. Write optimizer',
  ],
};

function never(): never {
  throw new RangeError('a transport for each rank');
}

describe('as plain JavaScript may write them', () => {
  beforeEach(() => sw.setRank({ device: interpreter() }));

  test.each(Object.entries(mistakes))('%s is refused by name', async (_, [call, wrong, says]) => {
    // TypeScript would reject all of these options.
    const attempt = async (): Promise<unknown> => call(wrong as never);
    await expect(attempt()).rejects.toThrow(sw.ConfigError);
    await expect(attempt()).rejects.toThrow(says);
  });

  test('a setting that is assigned to a group under another name is refused', () => {
    const [group] = new sw.optim.SGD([weight()]).paramGroups;
    expect(() => Reflect.set(group ?? {}, 'weight_decay', 0)).not.toThrow();
    expect(group).not.toHaveProperty('weight_decay');
  });
});

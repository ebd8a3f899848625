import { expect, test } from 'vitest';
import type { MeshAxis, ModelSpec, Strategy } from '@shardwise/core/extend';
import { LlamaForCausalLM, MixtralForCausalLM } from '@shardwise/models';
import { layoutText, oneDevice, type RunLayout, scriptLines } from '@shardwise/planner';
import { dist } from 'shardwise';
import { z } from 'zod';

const sizes = {
  vocabSize: 64,
  hiddenSize: 32,
  intermediateSize: 64,
  numHiddenLayers: 4,
  numAttentionHeads: 4,
};
const llama = specOf(new LlamaForCausalLM(sizes));
const mixtral = specOf(
  new MixtralForCausalLM({
    ...sizes,
    numKeyValueHeads: 4,
    numLocalExperts: 4,
    numExpertsPerTok: 2,
  }),
);

function specOf(model: LlamaForCausalLM | MixtralForCausalLM): ModelSpec {
  return {
    parameters: model.namedParameters().map(([name, { part, requiresGrad }]) => {
      return { name, shape: part.shape, dtype: part.dtype, requiresGrad };
    }),
    modules: model.namedModules().map(([path]) => path),
    division: model.division(),
  };
}

const workload = { batch: 64, sequence: 128 };
const layouts: readonly [RunLayout, ModelSpec][] = [
  [oneDevice, llama],
  [{ ...oneDevice, precision: 'f32', dataParallel: 4 }, llama],
  [{ ...oneDevice, dataParallel: 4, zero: 1, shardRanks: 4 }, llama],
  [{ ...oneDevice, dataParallel: 4, zero: 2, shardRanks: 4 }, llama],
  [{ ...oneDevice, dataParallel: 8, zero: 3, shardRanks: 8 }, llama],
  [{ ...oneDevice, dataParallel: 8, zero: 3, shardRanks: 2 }, llama],
  [
    { ...oneDevice, dataParallel: 2, zero: 3, shardRanks: 2, offload: 'optimizer and parameters' },
    llama,
  ],
  [{ ...oneDevice, dataParallel: 2, zero: 1, shardRanks: 2, offload: 'optimizer' }, llama],
  [{ ...oneDevice, tensorParallel: 2 }, llama],
  [{ ...oneDevice, tensorParallel: 2, dataParallel: 2, zero: 3, shardRanks: 2 }, llama],
  [{ ...oneDevice, pipelineParallel: 2, dataParallel: 2 }, llama],
  [
    {
      ...oneDevice,
      pipelineParallel: 2,
      dataParallel: 2,
      zero: 1,
      shardRanks: 2,
      precision: 'f32',
    },
    llama,
  ],
  [{ ...oneDevice, pipelineParallel: 2, schedule: 'interleaved1f1b', stagesPerRank: 2 }, llama],
  [{ ...oneDevice, pipelineParallel: 2, tensorParallel: 2, dataParallel: 2 }, llama],
  [{ ...oneDevice, dataParallel: 4, expertParallel: 2, zero: 3, shardRanks: 4 }, mixtral],
];

test.each(layouts.map(([layout, spec]) => [layoutText(layout), layout, spec] as const))(
  'the lines of a script make a plan: %s',
  (_, layout, spec) => {
    const lines = scriptLines(layout, workload);
    const mesh = /mesh: (\[.*\])/.exec(lines[0] ?? '')?.[1] ?? '[]';
    const axes = axesSchema.parse(evaluate(mesh));
    const line = lines.find((each) => each.includes('parallelize')) ?? '';
    const strategy = evaluate(/parallelize\(model, (.*)\);$/.exec(line)?.[1] ?? '');
    expect(() => planOf(strategy, spec, axes)).not.toThrow();
  },
);

test('a layout that offloads activations makes the pages that its lines name', () => {
  const lines = scriptLines({ ...oneDevice, recompute: 'offload' }, workload);
  expect(lines).toContain('const pages = dist.hostPages();');
});

test('a layout that recomputes has a budget for what a pass takes', () => {
  const full = { ...oneDevice, recompute: 'full' } as const;
  const alone = { passBytes: 1e9, flopsPerSecond: 4e14, pageBytesPerSecond: null };
  const lines = scriptLines(full, workload, alone);
  expect(lines).toContain('const policy = nn.activationMemoryBudget({ bytes: 1000000000 });');
  expect(lines.join()).not.toContain('pages');
  const paged = { ...alone, pageBytesPerSecond: 6.4e10 };
  expect(scriptLines(full, workload, paged)).toEqual(
    expect.arrayContaining([
      'const pages = dist.hostPages();',
      'const policy = nn.activationMemoryBudget({ bytes: 1000000000, flopsPerSecond: 4.00e+14, pageBytesPerSecond: 6.40e+10 });',
    ]),
  );
  expect(scriptLines(oneDevice, workload, paged).join()).not.toContain('policy');
  // No budget can choose for a pass of which ranks compute parts.
  const stages = { ...full, pipelineParallel: 2 };
  expect(scriptLines(stages, workload, paged).join()).not.toContain('policy');
});

const axesSchema = z.array(z.object({ name: z.string(), size: z.number() }));

function evaluate(expression: string): unknown {
  // oxlint-disable-next-line no-implied-eval, no-new-func -- the text is what the planner wrote
  const made: unknown = new Function('dist', 'pages', `return ${expression}`)(
    dist,
    dist.hostPages(),
  );
  return made;
}

function planOf(strategy: unknown, spec: ModelSpec, axes: readonly MeshAxis[]): void {
  if (!isStrategy(strategy)) throw new TypeError('no strategy');
  strategy.plan(spec, axes);
}

function isStrategy(value: unknown): value is Strategy {
  return typeof value === 'object' && value !== null && 'plan' in value;
}

import { readFileSync } from 'node:fs';
import { flopsProfiler, nn } from '@shardwise/core';
import { ResNetForImageClassification } from '@shardwise/models';
import { beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { oneRank } from './decoder-cases.ts';

/** What PyTorch's FlopCounterMode counts in ResNet-18 with an image of 224 x 224 (tools/golden-flops.py). */
const golden = z
  .object({
    input: z.array(z.number()),
    parameters: z.number(),
    forward: z.record(z.string(), z.number()),
    backward: z.number(),
  })
  .parse(JSON.parse(readFileSync(`${import.meta.dirname}/golden/resnet18-flops.json`, 'utf8')));

beforeAll(oneRank);

test('The profiler counts what FlopCounterMode does in a training step of ResNet-18, to the operation.', async () => {
  const labels = Array.from({ length: 1000 }, (_, label) => [`${label}`, `class ${label}`]);
  const model = new ResNetForImageClassification(
    {
      embeddingSize: 64,
      hiddenSizes: [64, 128, 256, 512],
      depths: [2, 2, 2, 2],
      layerType: 'basic',
      id2label: Object.fromEntries(labels),
    },
    { initialValues: 'zeros' },
  );
  const profiler = flopsProfiler(model, { convention: 'pytorch' });
  const image = new nn.Parameter(new Float32Array(3 * 224 * 224), golden.input);
  profiler.startProfile();
  model.forward(image).sum().backward();
  for (const { grad } of [image, ...model.parameters()]) await grad?.data();
  const { work, modules, params } = profiler.stopProfile();

  expect(params).toBe(golden.parameters);
  const isProduct = (module: nn.Module): boolean =>
    module instanceof nn.Conv2d || module instanceof nn.Linear;
  const paths = model.namedModules().flatMap(([path, module]) => (isProduct(module) ? [path] : []));
  expect(paths).toHaveLength(21);
  for (const path of ['', ...paths]) {
    const counted = modules.find((each) => each.path === path)?.work.forward.flops;
    expect(counted, path).toBe(golden.forward[path]);
  }
  expect(work.backward.flops).toBe(golden.backward);
  // The pin of PyTorch's own tests, with the gradient of the image.
  expect(work.forward.flops + work.backward.flops).toBe(10_884_440_064);
});

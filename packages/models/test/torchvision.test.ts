import { readFileSync } from 'node:fs';
import { cpu } from '@shardwise/backend-cpu';
import { CheckpointError, fromData, noGrad, setRank } from '@shardwise/core';
import { encodeSafetensors, type HostArray, pickedFolder } from '@shardwise/core/extend';
import { loadPretrained, ResNetForImageClassification, ResNetModel } from '@shardwise/models';
import { assertAllclose } from '@shardwise/testing';
import { beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { uniform } from './golden/formulas.ts';

// Residual networks with the names that torchvision gives their tensors (tools/golden-torchvision.py).

const cases = z
  .array(
    z.object({
      layerType: z.enum(['basic', 'bottleneck']),
      depths: z.array(z.number()),
      tensors: z.record(z.string(), z.array(z.number())),
      logits: z.string().transform((text) => text.split(' ').map(Number)),
    }),
  )
  .parse(JSON.parse(readFileSync(`${import.meta.dirname}/golden/torchvision.json`, 'utf8')));

type Case = (typeof cases)[number];

/** The values that the script gives a tensor. */
function valueOf(name: string, shape: readonly number[]): HostArray {
  if (name.endsWith('num_batches_tracked')) {
    return { dtype: 'i64', shape, bytes: new Uint8Array(BigInt64Array.of(7n).buffer) };
  }
  const [rows = 1, ...rest] = shape;
  const columns = rest.reduce((product, size) => product * size, 1);
  const values = uniform(name, rows * columns);
  const isNorm = shape.length === 1 && !name.startsWith('fc');
  const before = isNorm && /(weight|running_var)$/.test(name) ? 1 : 0;
  const scale = shape.length > 1 ? 2 / Math.sqrt(columns) : 0.2;
  const own = values.map((value) => value * scale + before);
  return { dtype: 'f32', shape, bytes: new Uint8Array(own.buffer) };
}

function folderOf({ tensors }: Case, dropped: string[] = []): ReturnType<typeof pickedFolder> {
  const entries = Object.entries(tensors).filter(([name]) => !dropped.includes(name));
  const state = Object.fromEntries(entries.map(([name, shape]) => [name, valueOf(name, shape)]));
  return pickedFolder([new File([encodeSafetensors(state).slice()], 'model.safetensors')]);
}

function configOf({ layerType, depths }: Case): Partial<ResNetForImageClassification['config']> {
  const width = layerType === 'basic' ? 4 : 16;
  const hiddenSizes = depths.map((_, stage) => width * 2 ** stage);
  const labels = Array.from({ length: 5 }, (_, label) => [`${label}`, `class ${label}`]);
  return { layerType, depths, hiddenSizes, embeddingSize: 4, id2label: Object.fromEntries(labels) };
}

beforeAll(async () => setRank({ device: await cpu() }));

describe.each(cases)("torchvision's tensors of layers of the kind $layerType", (each) => {
  test('give the logits of PyTorch', async () => {
    const model = new ResNetForImageClassification(configOf(each), { initialValues: 'zeros' });
    const report = await loadPretrained(model, folderOf(each));
    expect(report).toEqual({ missing: [], unexpected: [] });
    const images = fromData(uniform('images', 2 * 3 * 32 * 32), [2, 3, 32, 32], 'f32');
    const logits = await noGrad(() => model.eval().forward(images)).data();
    assertAllclose(Array.from(logits, Number), each.logits, { rtol: 1e-4, atol: 1e-5 });
  });

  test('fill a network without a head, which has no place for that of the file', async () => {
    const model = new ResNetModel(configOf(each), { initialValues: 'zeros' });
    const allowUnexpected = ['classifier.1.weight', 'classifier.1.bias'];
    await expect(loadPretrained(model, folderOf(each))).rejects.toThrow(CheckpointError);
    const { missing } = await loadPretrained(model, folderOf(each), { allowUnexpected });
    expect(missing).toEqual([]);
  });

  test('are missed by the names of the model', async () => {
    const model = new ResNetForImageClassification(configOf(each), { initialValues: 'zeros' });
    const folder = folderOf(each, ['layer2.0.downsample.0.weight']);
    await expect(loadPretrained(model, folder)).rejects.toThrow(
      /resnet\.encoder\.stages\.1\.layers\.0\.shortcut\.convolution\.weight/,
    );
  });
});

import { mkdtempSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { cpu } from '@shardwise/backend-cpu';
import { createThreadsWorld, joinThreadsWorld } from '@shardwise/collectives';
import { ConfigError, fromData, LineMesh, nn, setRank, type Tensor } from '@shardwise/core';
import { allReduce } from '@shardwise/core/extend';
import { exportOnnx, type OnnxOptions } from '@shardwise/models';
import { saveOnnx } from '@shardwise/models/node';
import { InferenceSession } from 'onnxruntime-node';
import { beforeAll, describe, expect, test } from 'vitest';
import { build, type DecoderCase, decoderCases, oneRank } from './decoder-cases.ts';
import { tokens } from './golden/formulas.ts';
import { expectSame, runFile, waves } from './onnx-runs.ts';

beforeAll(oneRank);

/** One of each kind of attention and mixture. The full suite has all cases. */
const QUICK = new Set(['GPT-2', 'Llama', 'Gemma 2']);

/** Batches and lengths, beyond the windows of the cases. */
const SIZES = [
  [2, 12],
  [1, 9],
  [5, 30],
] as const;

class Perceptron extends nn.Module {
  readonly first = new nn.Linear(3, 8);
  readonly drop = new nn.Dropout(0.5);
  readonly norm = new nn.LayerNorm(8);
  readonly second = new nn.Linear(8, 2);

  forward(features: Tensor): Tensor {
    return this.second.forward(
      this.norm.forward(this.drop.forward(this.first.forward(features).gelu())),
    );
  }
}

class Convolutions extends nn.Module {
  readonly conv1 = new nn.Conv2d(3, 4, 3, { padding: 1, stride: 2 });
  readonly bn1 = new nn.BatchNorm2d(4);
  readonly pool = new nn.MaxPool2d(2);
  readonly fc = new nn.Linear(4 * 3 * 3, 5);

  forward(image: Tensor): Tensor {
    const x = this.pool.forward(this.bn1.forward(this.conv1.forward(image)).relu());
    return this.fc.forward(x.flatten(1)).logSoftmax();
  }
}

/** Pools over time, so that constants depend on a size. */
class Pooled extends nn.Module {
  readonly fc = new nn.Linear(4, 2);

  forward(x: Tensor): {
    readonly meanState: Tensor;
    readonly best: Tensor;
    readonly total: Tensor;
  } {
    const projected = this.fc.forward(x);
    return {
      meanState: projected.mean(1),
      best: projected.argMax(2),
      total: projected.cumsum(1).softplus().sign(),
    };
  }
}

describe('a file for onnxruntime', () => {
  test('computes an MLP in evaluation, for any batch', async () => {
    const model = new Perceptron();
    const file = await exportOnnx(model, [waves([4, 3])]);
    expect(model.drop.training).toBe(true);
    model.eval();
    for (const batch of [1, 2, 7]) {
      const features = waves([batch, 3], batch);
      const { output } = await runFile(file, { features });
      await expectSame(output, model.forward(features));
    }
  });

  test('computes convolutions, batch norm and pooling by the running statistics', async () => {
    const model = new Convolutions();
    model.train();
    await model.forward(waves([6, 3, 12, 12])).data();
    const file = await exportOnnx(model, [waves([2, 3, 12, 12])]);
    model.eval();
    for (const batch of [1, 3]) {
      const image = waves([batch, 3, 12, 12], batch);
      const { output } = await runFile(file, { image });
      await expectSame(output, model.forward(image));
    }
  });

  test('has constants that depend on sizes, and the outputs of an object by their keys', async () => {
    const model = new Pooled();
    const file = await exportOnnx(model, [waves([1, 5, 4])], {
      dynamicAxes: { x: { 0: 'batch', 1: 'time' } },
    });
    for (const [batch, time] of [
      [2, 5],
      [1, 1],
      [3, 17],
    ] as const) {
      const x = waves([batch, time, 4], time);
      const found = await runFile(file, { x });
      const own = model.forward(x);
      await expectSame(found['mean_state'], own.meanState);
      await expectSame(found['best'], own.best);
      await expectSame(found['total'], own.total);
    }
  });
});

/** Windows make short rows another program than long ones, so the file is made for rows beyond the window. */
function sizesOf({ config }: DecoderCase): OnnxOptions {
  const hasWindow = typeof config['sliding_window'] === 'number';
  const sequence = { name: 'sequence', min: hasWindow ? 8 : 2, max: 64 };
  const axes = { 0: 'batch', 1: sequence };
  return hasWindow ? { dynamicAxes: { input_ids: axes } } : {};
}

describe.each(decoderCases.filter(({ name }) => QUICK.has(name)))('the file of $name', (golden) => {
  test('computes the logits of batches and sequences of any size from a sample of one row', async () => {
    const model = await build(golden);
    const file = await exportOnnx(model, [tokens('sample', [1, 12])], sizesOf(golden));
    for (const [batch, length] of SIZES) {
      const inputIds = tokens(`${length}`, [batch, length]);
      const { logits } = await runFile(file, { input_ids: inputIds });
      await expectSame(logits, model.forward(inputIds));
    }
  });
});

test('a file takes a mask of the padding, in the middle of which no key is seen', async () => {
  const golden = decoderCases.find(({ name }) => name === 'GPT-2');
  const model = await build(required(golden));
  const attentionMask = fromData(Int32Array.of(0, 0, 1, 1, 0, 1, 1, 1), [2, 4], 'i32');
  const ids = tokens('sample', [2, 4]);
  const file = await exportOnnx(model, [ids, { attentionMask }]);
  const { logits } = await runFile(file, { input_ids: ids, attention_mask: attentionMask });
  await expectSame(logits, model.forward(ids, { attentionMask }));
});

test('a file takes documents that are packed into rows, which it gathers, scatters and sums', async () => {
  const model = await build(required(decoderCases.find(({ name }) => name === 'Llama')));
  const documents = fromData(Int32Array.of(0, 0, 1, 1, 1, 4, 4, 4, 4, 4), [2, 5], 'i32');
  const ids = tokens('sample', [2, 5]);
  const file = await exportOnnx(model, [ids, { documents }]);
  const { logits } = await runFile(file, { input_ids: ids, documents });
  await expectSame(logits, model.forward(ids, { documents }));
});

describe('a file', () => {
  test('has the names of the state, and tied parameters once', async () => {
    const model = await build(required(decoderCases.find(({ name }) => name === 'GPT-2')));
    const file = await exportOnnx(model, [tokens('sample', [2, 6])]);
    const text = new TextDecoder('latin1').decode(file);
    expect(text.split('transformer.wte.weight').length).toBeGreaterThan(1);
    expect(text).not.toContain('lm_head.weight');
    const state = model.parameters().reduce((sum, { numel }) => sum + 4 * numel, 0);
    expect(file.byteLength).toBeGreaterThan(state);
    expect(file.byteLength).toBeLessThan(state + 60_000);
  });

  test('takes i32 where the caller asks for it, and has the names that the caller gives', async () => {
    const model = await build(required(decoderCases.find(({ name }) => name === 'GPT-2')));
    const file = await exportOnnx(model, [tokens('sample', [2, 6])], {
      integers: 'i32',
      inputNames: ['ids'],
      outputNames: ['scores'],
    });
    const session = await InferenceSession.create(file);
    expect(session.inputMetadata).toMatchObject([
      { name: 'ids', type: 'int32', shape: ['batch', 'sequence'] },
    ]);
    expect(session.outputMetadata).toMatchObject([
      { name: 'scores', type: 'float32', shape: ['batch', 'sequence', 48] },
    ]);
    await session.release();
  });

  test('fails a run of more positions than the model has', async () => {
    const model = await build(required(decoderCases.find(({ name }) => name === 'Llama')));
    const file = await exportOnnx(model, [tokens('sample', [2, 6])], {
      dynamicAxes: { input_ids: { 1: { name: 'sequence', max: 9 } } },
    });
    await runFile(file, { input_ids: tokens('fits', [2, 9]) });
    await expect(runFile(file, { input_ids: tokens('long', [2, 10]) })).rejects.toThrow(
      'sequence is at most 9',
    );
  });

  test('has fixed dims if no axes are dynamic', async () => {
    const model = new Perceptron().eval();
    const file = await exportOnnx(model, [waves([4, 3])], { dynamicAxes: {} });
    const { output } = await runFile(file, { features: waves([4, 3]) });
    await expectSame(output, model.forward(waves([4, 3])));
    await expect(runFile(file, { features: waves([5, 3]) })).rejects.toThrow('Expected: 4');
  });

  test('has its weights beside it if asked, and replaces older files', async () => {
    const path = join(mkdtempSync(join(tmpdir(), 'onnx-')), 'model.onnx');
    const model = new Perceptron().eval();
    const sample = [waves([4, 3])] as const;
    await saveOnnx(path, model, [...sample]);
    const whole = await runFile(path, { features: sample[0] });
    await expectSame(whole['output'], model.forward(...sample));
    await saveOnnx(path, model, [...sample], { externalData: true });
    const apart = await runFile(path, { features: sample[0] });
    await expectSame(apart['output'], model.forward(...sample));
    expect(statSync(`${path}.data`).size % 4096).toBe(0);
  });
});

/** Adds a number of rows that depends on the batch. */
class Unrolled extends nn.Module {
  forward(x: Tensor): Tensor {
    const rows = x.split(1, 0);
    return rows.reduce((sum, row) => sum.add(row));
  }
}

class Noisy extends nn.Module {
  forward(x: Tensor): Tensor {
    return nn.functional.dropout(x, 0.5);
  }
}

class Branching extends nn.Module {
  forward(x: Tensor): Tensor {
    return (x.shape[0] ?? 0) > 40 ? x.exp() : x.tanh();
  }
}

class Reduced extends nn.Module {
  forward(x: Tensor): Tensor {
    return allReduce(x, 'dp');
  }
}

class Halving extends nn.Module {
  forward(x: Tensor): Tensor {
    return x.to('bf16').exp().to('f32');
  }
}

describe('an error', () => {
  test('names the op whose sizes do not follow from those of the inputs', async () => {
    const failure = exportOnnx(new Unrolled(), [waves([4, 3])]);
    await expect(failure).rejects.toThrow(ConfigError);
    await expect(failure).rejects.toMatchObject({ fields: { op: 'add' } });
  });

  test('says that the model draws random numbers', async () => {
    const failure = exportOnnx(new Noisy(), [waves([4, 3])]);
    await expect(failure).rejects.toMatchObject({ code: 'BACKEND', fields: { op: 'random' } });
  });

  test('says at which size the model computes in another way than near the sample', async () => {
    await expect(exportOnnx(new Branching(), [waves([4, 3])])).rejects.toMatchObject({
      fields: { axis: 'batch', size: 65_536 },
    });
    await exportOnnx(new Branching(), [waves([4, 3])], {
      dynamicAxes: { x: { 0: { name: 'batch', max: 40 } } },
    });
  });

  test('names a collective, which needs other ranks', async () => {
    const group = joinThreadsWorld(createThreadsWorld({ size: 2 }), 0);
    setRank({ device: await cpu(), mesh: new LineMesh('dp', group) });
    await expect(exportOnnx(new Reduced(), [waves([4, 3])])).rejects.toMatchObject({
      code: 'LAYOUT',
      fields: { op: 'allReduce' },
    });
    await oneRank();
  });

  test('refuses 16 bits, of which a file would have the bits alone', async () => {
    await expect(exportOnnx(new Halving(), [waves([4, 3])])).rejects.toThrow("model.to('f32')");
  });

  test('is thrown for inputs and dims that the sample does not have', async () => {
    const model = new Perceptron();
    const axes = { nothing: { 0: 'batch' } };
    await expect(exportOnnx(model, [waves([4, 3])], { dynamicAxes: axes })).rejects.toThrow(
      'nothing',
    );
    const dims = { features: { 2: 'batch' } };
    await expect(exportOnnx(model, [waves([4, 3])], { dynamicAxes: dims })).rejects.toThrow(
      'features [4, 3]',
    );
    const sizes = { features: { 0: { name: 'batch', min: 0 } } };
    await expect(exportOnnx(model, [waves([4, 3])], { dynamicAxes: sizes })).rejects.toThrow('min');
    await expect(
      exportOnnx(model, [waves([4, 3])], { inputNames: ['fc', 'other'] }),
    ).rejects.toThrow(ConfigError);
    await expect(
      exportOnnx(model, [waves([4, 3])], { inputNames: ['first.weight'] }),
    ).rejects.toThrow('a parameter or another input of this name');
  });
});

function required<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('no such case');
  return value;
}

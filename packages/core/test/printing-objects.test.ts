import type { Layout, Shape } from '../src/spec/index.ts';
import { inspect } from 'node:util';
import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { ArrayDataset } from '../src/data/array-dataset.ts';
import { collate } from '../src/data/collate.ts';
import { ndArray, printArrays } from '../src/tensor/nd-array.ts';
import { Linear } from '../src/nn/layers/linear.ts';
import { BufferTensor, Parameter } from '../src/nn/parameter/parameter.ts';
import { Sequential } from '../src/nn/containers/sequential.ts';
import { setRank } from '../src/rank.ts';
import { TensorStateError } from '../src/spec/errors.ts';
import { fromData, ones, tensor, zeros } from '../src/tensor/create.ts';

beforeEach(() => setRank({ device: interpreter() }));

/** Converts a value to text, as a template string does. */
const text = (value: unknown): string => String(value);
const half = (): Parameter => new Parameter(Float32Array.of(1, 2.5), [2]);

describe('a tensor prints', () => {
  test('dtype, shape and values that lie on the host, under console.log and as text', () => {
    const x = tensor([
      [1, 2],
      [3, 4.5],
    ]);
    const printed = 'Tensor f32 [2, 2] on the host:\n[[1.0000, 2.0000],\n [3.0000, 4.5000]]';
    expect(inspect(x)).toBe(printed);
    expect(text(x)).toBe(printed);
    expect(x.toString()).toBe(printed);
  });

  test('values behind its head where they fit on that line', () => {
    expect(text(tensor(3))).toBe('Tensor f32 [] on the host: 3.');
    expect(text(tensor([true, false]))).toBe('Tensor bool [2] on the host: [ true, false]');
    expect(text(zeros([0, 3]))).toBe('Tensor f32 [0, 3], not computed yet (constant)');
  });

  test('that it is not computed, without computing it', async () => {
    const y = tensor([1, 2]).mul(2);
    expect(text(y)).toBe('Tensor f32 [2], not computed yet (mul)');
    expect(y.node.value).toBeNull();
    expect(inspect(await y.realize())).toBe('Tensor f32 [2] on the device (interpreter)');
    await y.data();
    expect(text(y)).toBe('Tensor f32 [2] on the host: [2., 4.]');
  });

  test('values of a device that computes in memory of the host, but not while it computes', async () => {
    const weight = half();
    await weight.mul(2).data();
    expect(text(weight)).toBe('Parameter f32 [2] on the device (interpreter), requiresGrad');
    const { value } = weight.contents;
    if (value?.kind !== 'device')
      throw new Error('a parameter lives on the device from its first use on');
    const bytes = new Uint8Array(Float32Array.of(7, 8).buffer);
    Object.assign(value.storage.backend, { map: () => bytes });
    expect(text(weight)).toBe('Parameter f32 [2] on interpreter, requiresGrad: [7., 8.]');
    const reading = ones([2]).data();
    expect(text(weight)).toBe(
      'Parameter f32 [2] on the device (interpreter), which is computing, requiresGrad',
    );
    await reading;
  });

  test('that its memory was freed, and by what', async () => {
    const y = ones([2]).mul(7);
    await y.realize();
    y.dispose();
    expect(text(y)).toBe('Tensor f32 [2], freed by dispose()');
  });

  test('that its array was given away', () => {
    const data = Float32Array.of(1, 2);
    const x = fromData(data, [2], 'f32');
    structuredClone(data, { transfer: [data.buffer] });
    expect(text(x)).toBe('Tensor f32 [2] in an array whose memory was given away');
  });

  test('whether it requires a gradient, and its class', () => {
    expect(text(half())).toBe('Parameter f32 [2] on the host, requiresGrad: [1.0000, 2.5000]');
    expect(text(new BufferTensor(Int32Array.of(3), [], { dtype: 'i32' }))).toBe(
      'BufferTensor i32 [] on the host: 3',
    );
  });

  test('of which whole it is a part, where ranks share it out', () => {
    class Part extends Parameter {
      override get layout(): Layout {
        return { dims: [['dp']], partial: [] };
      }
      override get wholeShape(): Shape {
        return [4];
      }
    }
    expect(text(new Part(Float32Array.of(1, 2), [2]))).toBe(
      'Part f32 [2], a part of [4] over dp, on the host, requiresGrad: [1., 2.]',
    );
    const part = new Part(Float32Array.of(1, 2), [2]);
    part.assign(part.mul(2));
    expect(text(part)).toBe(
      'Part f32 [2], a part of [4] over dp, not computed yet (assign), requiresGrad',
    );
  });

  test('one line inside of another object, with its first and last values', () => {
    const x = tensor([0, 1, 2, 3, 4, 5, 6, 7]);
    expect(inspect({ x, list: [half()] }, { breakLength: Infinity })).toBe(
      '{ x: Tensor f32 [8] on the host: 0., 1., 2., …, 5., 6., 7., list: [ Parameter f32 [2] on the host, requiresGrad: 1.0000, 2.5000 ] }',
    );
  });

  test('the same text in JSON, where it would be {}', () => {
    expect(JSON.stringify({ step: 1, loss: tensor(0.5) })).toBe(
      '{"step":1,"loss":"Tensor f32 [] on the host: 0.5000"}',
    );
  });

  test('no number: operators that need one are an error that says what to do', () => {
    const loss = tensor(0.5);
    const number = (value: unknown): number => Number(value);
    expect(() => number(loss)).toThrow(TensorStateError);
    expect(() => number(loss)).toThrow(/a number, of a Tensor of shape \[\].*await x\.item\(\)/);
    expect(`loss: ${text(loss)}`).toBe('loss: Tensor f32 [] on the host: 0.5000');
  });

  test('no text and no number of what item() and data() return before it is awaited', async () => {
    const loss = tensor(0.5);
    for (const read of [loss.item(), loss.data()] as readonly unknown[]) {
      const says = /a number, of a Tensor of shape \[\].*await x\.item\(\)/;
      expect(() => text(read)).toThrow(says);
      expect(() => Number(read) < 0.1).toThrow(TensorStateError);
      expect(read).toBeInstanceOf(Promise);
      expect(inspect(read)).toMatch(/^Promise \{ .* \}$/);
    }
    const next = loss.item().then((value) => value + 1);
    expect(await next).toBe(1.5);
    await expect(tensor([1, 2]).item()).rejects.toThrow(/2 elements/);
  });
});

describe('data prints', () => {
  test('a state dict as a list of names and values', async () => {
    const model = new Linear(2, 1);
    await model.loadStateDict({
      weight: { dtype: 'f32', shape: [1, 2], bytes: new Uint8Array(Float32Array.of(1, 2).buffer) },
      bias: { dtype: 'f32', shape: [1], bytes: new Uint8Array(Float32Array.of(0.5).buffer) },
    });
    const dict = await model.stateDict();
    expect(inspect(dict)).toBe(
      '{\n  weight: HostArray f32 [1, 2]: 1., 2.,\n  bias: HostArray f32 [1]: 0.5000\n}',
    );
    expect(text(dict['weight'] ?? dict)).toBe('HostArray f32 [1, 2]: [[1., 2.]]');
  });

  test('samples and batches, also those that came from a worker', () => {
    const dataset = new ArrayDataset({ x: ndArray(Float32Array.of(1, 2, 3, 4), [2, 2]) });
    const batch = collate([dataset.get(0), dataset.get(1)]);
    const line = '{ x: NDArray f32 [2, 2]: 1., 2., 3., 4. }';
    expect(inspect(batch)).toBe(line);
    expect(text(batch.x)).toBe('NDArray f32 [2, 2]:\n[[1., 2.],\n [3., 4.]]');
    expect(inspect(printArrays(structuredClone(batch)))).toBe(line);
  });

  test('stays plain: copies and comparisons see its fields alone', () => {
    const array = ndArray(Int32Array.of(1));
    expect(Object.keys(array)).toEqual(['data', 'shape', 'dtype']);
    expect(array).toEqual({ data: Int32Array.of(1), shape: [1], dtype: 'i32' });
    expect(structuredClone(array)).toEqual(array);
  });
});

test('a model prints its tree under console.log, also inside of other objects', () => {
  const model = new Sequential(new Linear(1, 2));
  expect(inspect(model)).toBe(model.toString());
  expect(inspect({ model })).toContain('(0): Linear(inFeatures=1, outFeatures=2, bias=true)');
});

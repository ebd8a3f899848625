import { mkdtemp, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, it } from 'vitest';
import {
  encodeSafetensors,
  fromData,
  type HostArrays,
  loadTensors,
  type ModelFolder,
  pickedFolder,
  safetensorsSource,
  TensorStateError,
  type TensorSource,
} from '../src/extend.ts';
import { CheckpointError, nn, setRank, type Tensor } from '../src/index.ts';
import { diskFolder } from '../src/node.ts';

class Classifier extends nn.Module {
  readonly body = new nn.Linear(3, 2);
  readonly head = new nn.Linear(2, 2, { bias: false });
}

class Tied extends nn.Module {
  readonly embed = new nn.Linear(2, 3, { bias: false });
  readonly head = new nn.Linear(2, 3, { bias: false });

  constructor() {
    super();
    this.head.weight = this.embed.weight;
  }
}

let directory = '';
let folder: ModelFolder = diskFolder(directory);
beforeEach(async () => {
  setRank({ device: interpreter() });
  directory = await mkdtemp(join(tmpdir(), 'shardwise-tensors-'));
  folder = diskFolder(directory);
});

function floats(shape: readonly number[], ...values: number[]): HostArrays[string] {
  return { dtype: 'f32', shape, bytes: new Uint8Array(Float32Array.from(values).buffer) };
}

const whole: HostArrays = {
  'body.weight': floats([2, 3], 1, 2, 3, 4, 5, 6),
  'body.bias': floats([2], 7, 8),
  'head.weight': floats([2, 2], 9, 10, 11, 12),
};

/** Writes files of tensors, and an index that has all of them unless it is given. */
async function write(files: Readonly<Record<string, HostArrays>>, index?: unknown): Promise<void> {
  const map: Record<string, string> = {};
  for (const [name, tensors] of Object.entries(files)) {
    await writeFile(join(directory, name), encodeSafetensors(tensors));
    for (const tensor of Object.keys(tensors)) map[tensor] = name;
  }
  const text = JSON.stringify(index ?? { metadata: { total_size: 0 }, weight_map: map });
  await writeFile(join(directory, INDEX), text);
}

const INDEX = 'model.safetensors.index.json';
const [first, second] = ['model-00001-of-00002.safetensors', 'model-00002-of-00002.safetensors'];

async function open(tensors: HostArrays = whole): Promise<TensorSource> {
  await write({ 'model.safetensors': tensors });
  return safetensorsSource(folder, 'model.safetensors');
}

async function valuesOf(tensor: Tensor): Promise<readonly number[]> {
  return Array.from(await tensor.data(), Number);
}

async function errorOf(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => 'no error',
    (error: unknown) => error,
  );
}

describe('tensors of a safetensors file', () => {
  it('are loaded into a model by their names', async () => {
    const model = new Classifier();
    expect(await loadTensors(await open(), model)).toEqual({ missing: [], unexpected: [] });
    expect(await valuesOf(model.body.weight)).toEqual([1, 2, 3, 4, 5, 6]);
    expect(await valuesOf(model.head.weight)).toEqual([9, 10, 11, 12]);
  });

  it('replace values that a run has used, too', async () => {
    const model = new Classifier();
    const x = fromData(Float32Array.of(1, 0, 0), [1, 3], 'f32');
    await model.body.forward(x).data();
    await loadTensors(await open(), model);
    expect(await valuesOf(model.body.forward(x))).toEqual([8, 12]);
  });

  it('do not change what was written before and not computed, which is an error', async () => {
    const model = new Classifier();
    const double = model.head.weight.mul(2);
    await loadTensors(await open(), model);
    expect(await errorOf(double.data())).toBeInstanceOf(TensorStateError);
  });

  it('may have other names, and may be dropped', async () => {
    const model = new Classifier();
    const source = await open({
      ...Object.fromEntries(Object.entries(whole).map(([name, value]) => [`model.${name}`, value])),
      step: floats([], 3),
    });
    const rename = (name: string): string | null =>
      name === 'step' ? null : name.replace(/^model\./, '');
    expect(await loadTensors(source, model, { rename })).toEqual({ missing: [], unexpected: [] });
    expect(await valuesOf(model.body.bias ?? model.body.weight)).toEqual([7, 8]);
    const both = loadTensors(source, model, { rename: () => 'body.bias' });
    expect(await errorOf(both)).toMatchObject({
      fields: { names: ['model.body.bias', 'model.body.weight'], renamed: 'body.bias' },
    });
  });

  it('are all listed if they do not fit, and nothing changes', async () => {
    const model = new Classifier();
    const before = await valuesOf(model.body.weight);
    const source = await open({
      'body.weight': floats([2, 3], 1, 2, 3, 4, 5, 6),
      'head.weight': floats([3, 2], 1, 2, 3, 4, 5, 6),
      other: floats([1], 1),
    });
    expect(await errorOf(loadTensors(source, model))).toMatchObject({
      fields: {
        missing: ['body.bias'],
        unexpected: ['other'],
        different: ['head.weight (shape [3, 2], not [2, 2])'],
      },
    });
    expect(await valuesOf(model.body.weight)).toEqual(before);
  });

  it('may be missing, unexpected or of another shape where names or patterns allow it', async () => {
    const model = new Classifier();
    const head = await valuesOf(model.head.weight);
    const source = await open({
      'body.weight': floats([2, 3], 1, 2, 3, 4, 5, 6),
      'head.weight': floats([3, 2], 1, 2, 3, 4, 5, 6),
      'rotary.inv_freq': floats([1], 1),
    });
    const allowed = {
      allowMissing: ['body.bias'],
      allowUnexpected: [/inv_freq$/],
      allowMismatched: [/^head\./],
    };
    expect(await loadTensors(source, model, allowed)).toEqual({
      missing: ['body.bias', 'head.weight'],
      unexpected: ['rotary.inv_freq'],
    });
    expect(await valuesOf(model.body.weight)).toEqual([1, 2, 3, 4, 5, 6]);
    expect(await valuesOf(model.head.weight)).toEqual(head);
    expect(
      await errorOf(loadTensors(source, model, { ...allowed, allowMissing: ['body'] })),
    ).toMatchObject({ fields: { missing: ['body.bias'], unexpected: [], different: [] } });
  });

  it('may lack names of a tensor that the model shares', async () => {
    for (const name of ['embed.weight', 'head.weight']) {
      const model = new Tied();
      const report = await loadTensors(
        await open({ [name]: floats([3, 2], 1, 2, 3, 4, 5, 6) }),
        model,
      );
      expect(report).toEqual({ missing: [], unexpected: [] });
      expect(await valuesOf(model.head.weight)).toEqual([1, 2, 3, 4, 5, 6]);
    }
  });

  it('that the model shares must be equal under all names', async () => {
    const equal = {
      'embed.weight': floats([3, 2], 1, 2, 3, 4, 5, 6),
      'head.weight': floats([3, 2], 1, 2, 3, 4, 5, 6),
    };
    const model = new Tied();
    expect(await loadTensors(await open(equal), model)).toEqual({ missing: [], unexpected: [] });
    const other = { ...equal, 'head.weight': floats([3, 2], 1, 2, 3, 4, 5, 7) };
    expect(await errorOf(loadTensors(await open(other), model))).toMatchObject({
      fields: { stored: 'embed.weight', copy: 'head.weight' },
    });
  });

  it('are rounded to fewer bits only where that is asked for', async () => {
    const model = await new Classifier().to('bf16');
    const source = await open({ ...whole, 'body.bias': floats([2], 1.00390625, 1.01171875) });
    expect(await errorOf(loadTensors(source, model))).toMatchObject({
      fields: {
        different: [
          'body.weight (f32, not bf16)',
          'body.bias (f32, not bf16)',
          'head.weight (f32, not bf16)',
        ],
      },
    });
    await loadTensors(source, model, { rounds: true });
    // Both lie between two numbers of bf16. The even one is taken.
    expect(await valuesOf((model.body.bias ?? model.body.weight).to('f32'))).toEqual([1, 1.015625]);
  });

  it.each([
    ['f32', 1e39],
    ['bf16', -1e39],
  ] as const)('become %s only if no number becomes infinite', async (dtype, large) => {
    const model = await new Classifier().to(dtype);
    const inBias = (value: number): HostArrays => ({
      ...whole,
      'body.bias': {
        dtype: 'f64',
        shape: [2],
        bytes: new Uint8Array(Float64Array.of(1.5, value).buffer),
      },
    });
    const options = { rounds: true };
    await loadTensors(await open(inBias(-Infinity)), model, options);
    const { bias } = model.body;
    expect(await valuesOf((bias ?? expect.fail()).to('f32'))).toEqual([1.5, -Infinity]);
    const found = await errorOf(loadTensors(await open(inBias(large)), model, options));
    expect(found).toMatchObject({ cause: { fields: { name: 'body.bias', dtype: 'f64' } } });
    expect(String(found)).toContain(`as ${dtype}: numbers in f64 that ${dtype} has not`);
  });
});

describe('tensors of several safetensors files', () => {
  const { 'body.bias': bias, ...rest } = whole;
  const shards = { [first]: rest, [second]: { 'body.bias': bias ?? floats([0]) } };

  it('are found by their index', async () => {
    await write(shards);
    const model = new Classifier();
    await loadTensors(await safetensorsSource(folder, INDEX), model);
    expect(await valuesOf(model.body.bias ?? model.body.weight)).toEqual([7, 8]);
    expect(await valuesOf(model.head.weight)).toEqual([9, 10, 11, 12]);
  });

  it.each([
    [
      'a file that is missing',
      { 'body.bias': 'gone.safetensors' },
      /gone\.safetensors.*no such file/,
    ],
    ['another file', { 'body.bias': first }, /'body\.bias' is not in model-00001-of-00002/],
    [
      'a path out of the folder',
      { 'body.bias': '../model.safetensors' },
      /weight_map\.body\.bias: expected a text/,
    ],
    ['no file', { 'body.bias': 3 }, /weight_map\.body\.bias: expected a text/],
  ])('are refused if the index names %s', async (_, map, message) => {
    await write(shards, { weight_map: { 'body.weight': first, ...map } });
    const error = await errorOf(safetensorsSource(folder, INDEX));
    expect(error).toBeInstanceOf(CheckpointError);
    expect(error).toMatchObject({ message: expect.stringMatching(message) });
  });

  it('are refused if the index is none, or two files have one name', async () => {
    await write(shards, []);
    expect(await errorOf(safetensorsSource(folder, INDEX))).toMatchObject({
      message: expect.stringContaining('expected an object'),
    });
    await writeFile(join(directory, INDEX), '{');
    expect(await errorOf(safetensorsSource(folder, INDEX))).toMatchObject({
      message: expect.stringContaining('it is no JSON'),
    });
    await write({ [first]: whole, [second]: rest }, { weight_map: { a: first, b: second } });
    expect(await errorOf(safetensorsSource(folder, INDEX))).toMatchObject({
      message: expect.stringContaining("have 'body.weight'"),
    });
  });

  it('are refused if a file is cut off', async () => {
    await write(shards);
    for (const length of [160, 40, 4]) {
      await truncate(join(directory, first), length);
      const error = await errorOf(safetensorsSource(folder, INDEX));
      expect(error).toBeInstanceOf(CheckpointError);
      expect(error).toMatchObject({ message: expect.stringMatching(/expected \d+ bytes/) });
    }
  });
});

describe('a file that ends while it is read', () => {
  it('is an error', async () => {
    const source = await open();
    const { byteLength } = encodeSafetensors(whole);
    await truncate(join(directory, 'model.safetensors'), byteLength - 4);
    const error = await errorOf(loadTensors(source, new Classifier()));
    expect(error).toBeInstanceOf(CheckpointError);
    expect(error).toMatchObject({
      message: expect.stringMatching(/expected 16 bytes at \d+, found 12/),
    });
  });
});

describe('a source that fails after a part of a model was loaded', () => {
  it('is an error that says so', async () => {
    const elements = 17 * 1024 * 1024;
    class Large extends nn.Module {
      readonly first = new nn.Parameter(new Float32Array(elements), [elements]);
      readonly second = new nn.Parameter(new Float32Array(1), [1]);
    }
    const source: TensorSource = {
      place: 'a failing disk',
      names: ['first', 'second'],
      isVerifiedByReading: false,
      get: (name) => ({ name, dtype: 'f32', shape: [name === 'first' ? elements : 1] }),
      open: () => ({
        async fill(name) {
          if (name === 'second') throw new Error('input/output error');
        },
        async [Symbol.asyncDispose]() {},
      }),
    };
    expect(await errorOf(loadTensors(source, new Large()))).toMatchObject({
      message: expect.stringMatching(
        /a failing disk .*input\/output error; a part of the tensors had been loaded/,
      ),
    });
    const checked = errorOf(loadTensors({ ...source, isVerifiedByReading: true }, new Large()));
    expect(await checked).toMatchObject({ message: 'input/output error' });
  });
});

describe('the files that the visitor of a page has picked', () => {
  it('are read like a folder', async () => {
    const file = new File([new Uint8Array(encodeSafetensors(whole))], 'model.safetensors');
    const model = new Classifier();
    await loadTensors(await safetensorsSource(pickedFolder([file]), file.name), model);
    expect(await valuesOf(model.head.weight)).toEqual([9, 10, 11, 12]);
    const absent = errorOf(safetensorsSource(pickedFolder([file]), 'other.safetensors'));
    expect(await absent).toMatchObject({ message: expect.stringContaining('no such file') });
  });

  it('may also be a folder of the browser', async () => {
    const file = new File([new Uint8Array(encodeSafetensors(whole))], 'model.safetensors');
    const handle = {
      name: 'gpt2',
      async getFileHandle(name: string) {
        if (name !== file.name) throw new DOMException('not there', 'NotFoundError');
        return { getFile: async () => file };
      },
    };
    const source = await safetensorsSource(pickedFolder(handle), file.name);
    expect(source.names).toEqual(expect.arrayContaining(Object.keys(whole)));
    const absent = errorOf(safetensorsSource(pickedFolder(handle), 'other.safetensors'));
    expect(await absent).toMatchObject({
      message: expect.stringContaining('gpt2/other.safetensors'),
    });
  });
});

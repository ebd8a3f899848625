import { type FileHandle, mkdtemp, readdir, rm, truncate } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { cpu, type CpuBackend } from '@shardwise/backend-cpu';
import { interpreter } from '@shardwise/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { currentSession, Parameter } from '../src/extend.ts';
import { CheckpointError, fromData, hostPages, type PageStore, setRank } from '../src/index.ts';
import { filePages, fillFromFile } from '../src/node.ts';

const values = Float32Array.from({ length: 1024 }, (_, index) => index);
const doubled = values.map((value) => 2 * value);
const bytes = values.byteLength;

let device: CpuBackend;
let directory = '';

beforeEach(async () => {
  device = await cpu();
  setRank({ device });
  directory = await mkdtemp(join(tmpdir(), 'shardwise-pages-'));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

const stores: Readonly<Record<string, () => Promise<PageStore>>> = {
  'host memory': async () => hostPages(),
  files: () => filePages(directory),
};

describe.each(Object.entries(stores))('a parameter paged out to %s', (_, makeStore) => {
  it('is on the device only while a run reads it', async () => {
    const parameter = new Parameter(values.slice(), [1024]);
    await parameter.realize();
    await parameter.mul(1).data();
    expect(device.usage().bytesInUse).toBeGreaterThanOrEqual(bytes);
    await parameter.pageOut('a/b', await makeStore());
    const before = device.usage().bytesInUse;
    expect(before).toBeLessThan(bytes);
    expect(await parameter.mul(2).data()).toEqual(doubled);
    expect(device.usage().bytesInUse - before).toBeLessThan(bytes);
    expect(await parameter.data()).toEqual(values);
  });

  it('is back on the device after an update, and may be paged out again', async () => {
    const store = await makeStore();
    const parameter = new Parameter(values.slice(), [1024]);
    await parameter.pageOut('weight', store);
    parameter.assign(parameter.mul(2));
    await parameter.pageOut('weight', store);
    expect(await parameter.data()).toEqual(doubled);
    expect(device.usage().bytesInUse).toBeLessThan(bytes);
  });

  it('is read between two runs of one program, by a device that is not in host memory, too', async () => {
    setRank({ device: interpreter() });
    const parameter = new Parameter(values.slice(), [1024]);
    await parameter.pageOut('weight', await makeStore());
    for (const factor of [2, 3]) {
      const scalar = fromData(Float32Array.of(factor), [], 'f32');
      expect(await parameter.mul(scalar).data()).toEqual(values.map((value) => factor * value));
    }
  });
});

describe.each(Object.entries(stores))('a gradient paged out to %s', (_, makeStore) => {
  const backward = (parameter: Parameter, factor: number): void =>
    parameter.mul(factor).sum().backward();

  it('is not on the device between passes, which add to it', async () => {
    const parameter = new Parameter(values.slice(), [1024]);
    parameter.pageGradient('weight gradient', await makeStore());
    backward(parameter, 2);
    await currentSession().realize([]);
    const before = device.usage().bytesInUse;
    // The memory holds the parameter and what the device keeps of the program.
    expect(before).toBeLessThan(3 * bytes);
    backward(parameter, 3);
    await currentSession().realize([]);
    expect(device.usage().bytesInUse - before).toBeLessThan(bytes);
    expect(await parameter.grad?.data()).toEqual(new Float32Array(1024).fill(5));
  });

  it('adds up passes of one run, too, and is read by what is built before it is computed', async () => {
    const parameter = new Parameter(values.slice(), [1024]);
    parameter.pageGradient('weight gradient', await makeStore());
    backward(parameter, 2);
    backward(parameter, 3);
    const negated = parameter.grad?.neg().retain();
    parameter.setGradientNode(parameter.grad?.mul(2).node ?? parameter.node);
    await currentSession().realize([]);
    expect(await negated?.data()).toEqual(new Float32Array(1024).fill(-5));
    expect(await parameter.grad?.data()).toEqual(new Float32Array(1024).fill(10));
    parameter.zeroGrad();
    expect(parameter.grad).toBeNull();
  });

  it('leaves the device again after its parameter was frozen for a while', async () => {
    const parameter = new Parameter(values.slice(), [1024]);
    parameter.pageGradient('weight gradient', await makeStore());
    parameter.requiresGrad_(false).requiresGrad_(true);
    backward(parameter, 2);
    await currentSession().realize([]);
    expect(parameter.gradientNode?.value?.kind).toBe('paged');
  });
});

describe('a gradient whose page cannot be written', () => {
  it('is dropped with its run, which gives back its memory, and the next one is computed', async () => {
    let isFull = true;
    const host = hostPages();
    const store: PageStore = {
      write: (name, page) =>
        isFull ? Promise.reject(new RangeError('no room')) : host.write(name, page),
    };
    const parameter = new Parameter(values.slice(), [1024]);
    await parameter.mul(1).data();
    parameter.pageGradient('weight gradient', store);
    const before = device.usage().bytesInUse;
    parameter.mul(2).sum().backward();
    await expect(currentSession().realize([])).rejects.toThrow('no room');
    expect(device.usage().bytesInUse - before).toBeLessThan(2 * bytes);
    expect(parameter.grad).toBeNull();
    isFull = false;
    parameter.mul(3).sum().backward();
    await currentSession().realize([]);
    expect(await parameter.grad?.data()).toEqual(new Float32Array(1024).fill(3));
  });
});

describe('pages in files', () => {
  it('are removed together', async () => {
    const pages = await filePages(directory);
    await pages.write('layers.0.weight', new Uint8Array(8));
    expect(await readdir(pages.directory)).toHaveLength(1);
    await pages[Symbol.asyncDispose]();
    expect(await readdir(directory)).toEqual([]);
  });

  it('of two stores in one directory are apart', async () => {
    const [one, two] = [await filePages(directory), await filePages(directory)];
    const page = await one.write('weight', Uint8Array.of(1));
    await two.write('weight', Uint8Array.of(2));
    const target = new Uint8Array(1);
    await page.read(target);
    expect(target).toEqual(Uint8Array.of(1));
  });

  it('that are shorter than they were written are refused', async () => {
    const pages = await filePages(directory);
    const page = await pages.write('weight', new Uint8Array(8));
    await truncate(join(pages.directory, 'weight'), 3);
    await expect(page.read(new Uint8Array(8))).rejects.toThrow(CheckpointError);
    await expect(page.read(new Uint8Array(8))).rejects.toThrow(/ends after 3 bytes/);
  });

  it('that cannot be written leave the contents where they are', async () => {
    const pages = await filePages(directory);
    await pages[Symbol.asyncDispose]();
    const parameter = new Parameter(values.slice(), [1024]);
    await expect(parameter.pageOut('weight', pages)).rejects.toThrow(CheckpointError);
    expect(await parameter.data()).toEqual(values);
  });
});

it('a parameter with a pending update may be frozen', async () => {
  const parameter = new Parameter(values.slice(), [1024]);
  parameter.assign(parameter.mul(2)).requiresGrad_(false);
  expect(parameter.requiresGrad).toBe(false);
  expect(await parameter.data()).toEqual(doubled);
  expect(parameter.requiresGrad).toBe(false);
});

describe('filling memory from a file', () => {
  /** A file of this size. A read returns at most as many bytes as Node can read at once, and writes do nothing. */
  function fileOf(byteLength: number): {
    readonly calls: (readonly [offset: number, length: number, position: number])[];
    readonly read: FileHandle['read'];
  } {
    const calls: [number, number, number][] = [];
    const read = async (_: unknown, offset: number, length: number, position: number) => {
      calls.push([offset, length, position]);
      return { bytesRead: Math.min(length, byteLength - position, 2 ** 30 - 1), buffer: _ };
    };
    return { calls, read: read as FileHandle['read'] };
  }

  it('asks for less than 2 GiB at a time, at which Node ends the process', async () => {
    const target = new Uint8Array(5 * 2 ** 29);
    const { calls, read } = fileOf(2 ** 33);
    expect(await fillFromFile({ read }, target, 2 ** 32)).toBe(target.byteLength);
    expect(Math.max(...calls.map(([, length]) => length))).toBeLessThan(2 ** 31);
    expect(calls.at(-1)).toEqual([2 ** 31 - 2, 2 ** 29 + 2, 2 ** 32 + 2 ** 31 - 2]);
  });

  it('says how many bytes there were where the file ends', async () => {
    expect(await fillFromFile(fileOf(100), new Uint8Array(64), 60)).toBe(40);
  });
});

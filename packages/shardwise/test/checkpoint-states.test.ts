import { mkdtemp, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createThreadsWorld, joinThreadsWorld } from '@shardwise/collectives';
import { CheckpointError, type HostArray, optim, type ProcessGroup } from '@shardwise/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CheckpointSaver } from '../src/checkpoint/save/checkpoint-saver.ts';
import { diskFiles } from '../src/checkpoint/places/disk-files.ts';
import { loadCheckpoint } from '../src/checkpoint/load/load-checkpoint.ts';
import { loadStates } from '../src/checkpoint/load/load-states.ts';
import { saveCheckpoint } from '../src/checkpoint/save/save-checkpoint.ts';
import type { Stateful, Statefuls } from '../src/checkpoint/format/stateful.ts';

let directory = '';
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'shardwise-states-'));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

const vector = (...values: number[]): HostArray => ({
  dtype: 'f32',
  shape: [values.length],
  bytes: new Uint8Array(Float32Array.from(values).buffer),
});

/** Remembers the values that it was given. */
class Memory implements Stateful {
  state: unknown;

  constructor(state: unknown = null) {
    this.state = state;
  }

  async stateDict(): Promise<unknown> {
    return this.state;
  }

  loadStateDict(state: unknown): void {
    this.state = state;
  }
}

async function onRanks<T>(
  size: number,
  body: (group: ProcessGroup) => Promise<T>,
): Promise<readonly T[]> {
  const world = createThreadsWorld({ size });
  const groups = Array.from({ length: size }, (_, rank) => joinThreadsWorld(world, rank));
  try {
    return await Promise.all(groups.map(body));
  } finally {
    for (const group of groups) group.close();
  }
}

const save = (statesOf: (rank: number) => Statefuls, size = 1): Promise<readonly string[]> =>
  onRanks(size, (group) =>
    saveCheckpoint(directory, { step: 1, model: {}, states: statesOf(group.rank) }, { group }),
  );

const load = (size: number): Promise<readonly unknown[]> =>
  onRanks(size, async (group) => {
    const memory = new Memory();
    await loadStates(await loadCheckpoint(directory), { memory }, { group });
    return memory.state;
  });

describe('states in a checkpoint', () => {
  it('come back as they were, with tensors in their places', async () => {
    const state = {
      step: 3,
      note: 'ä',
      none: null,
      flags: [true, [vector(1, 2), 'x']],
      errors: { '0.weight': vector(3), 'a/b': vector() },
      scalar: { dtype: 'bf16', shape: [], bytes: Uint8Array.of(1, 2) },
    };
    await save(() => ({ memory: new Memory(state) }));
    expect(await load(1)).toEqual([state]);
  });

  it('may be a tensor alone', async () => {
    await save(() => ({ memory: new Memory(vector(1, 2, 3)) }));
    expect(await load(1)).toEqual([vector(1, 2, 3)]);
  });

  it('are those of the moment of a save that goes on in the background', async () => {
    const array = vector(1);
    const state = { values: [1], array };
    await onRanks(1, async (group) => {
      const saver = new CheckpointSaver({ directory, group, files: diskFiles });
      const contents = { step: 1, model: {}, states: { memory: new Memory(state) } };
      await saver.save(contents, { async: true });
      state.values.push(2);
      array.bytes.fill(0);
      await saver.close();
    });
    expect(await load(1)).toEqual([{ values: [1], array: vector(1) }]);
  });

  it('of ranks go to the ranks of the same numbers', async () => {
    await save((rank) => ({ memory: new Memory({ rank, error: vector(rank, -rank) }) }), 3);
    expect(await load(3)).toEqual([0, 1, 2].map((rank) => ({ rank, error: vector(rank, -rank) })));
  });

  it('that are the same on all ranks go to any number of them', async () => {
    await save(() => ({ memory: new Memory({ scale: 8, factor: vector(1, 2) }) }), 3);
    for (const size of [1, 2, 4]) {
      const expected = { scale: 8, factor: vector(1, 2) };
      expect(await load(size)).toEqual(Array.from({ length: size }, () => expected));
    }
  });

  it.each([
    ['plain data', (rank: number) => ({ rank })],
    ['tensors', (rank: number) => ({ error: vector(rank) })],
  ])('that differ in %s are refused on another number of ranks', async (_, stateOf) => {
    await save((rank) => ({ memory: new Memory(stateOf(rank)) }), 2);
    await expect(load(3)).rejects.toThrow(CheckpointError);
    await expect(load(1)).rejects.toThrow(
      /1 different: memory \(each of 2 ranks saved its own; there are 1\)/,
    );
  });

  it('that are missing, and saved ones that nobody asks for, are listed together', async () => {
    await save(() => ({ hook: new Memory(1), memory: new Memory(2) }));
    const [memory, scaler] = [new Memory(), new Memory()];
    const checkpoint = await loadCheckpoint(directory);
    await expect(loadStates(checkpoint, { memory, scaler })).rejects.toThrow(
      /1 missing: scaler; 1 unexpected: hook/,
    );
    expect(memory.state).toBeNull();
    const report = await loadStates(checkpoint, { memory, scaler }, { strict: false });
    expect(report).toEqual({ missing: ['scaler'], unexpected: ['hook'] });
    expect([memory.state, scaler.state]).toEqual([2, null]);
  });

  const cycle: unknown[] = [];
  cycle.push(cycle);
  it.each([
    ['a NaN', { a: [1, Number.NaN] }, /NaN at "a\.1"/],
    ['a map', { a: new Map() }, /a Map at "a"/],
    ['a function', () => 1, /a function at its top/],
    ['a large integer', { n: 1n }, /a bigint at "n"/],
    ['a cycle', cycle, /64 levels below each other/],
    [
      'bytes of another length',
      { t: { ...vector(1, 2), shape: [3] } },
      /a Uint8Array at "t\.bytes"/,
    ],
  ])('that hold %s are refused by name, and nothing is saved', async (_, state, message) => {
    await expect(save(() => ({ memory: new Memory(state) }))).rejects.toThrow(message);
    await expect(save(() => ({ memory: new Memory(state) }))).rejects.toThrow(/"memory"/);
    await expect(loadCheckpoint(directory)).rejects.toThrow(/no "latest"/);
  });

  it('that a scaler cannot have are refused by the scaler, under their name', async () => {
    const states: readonly unknown[] = [null, { scale: -1 }, [], 'x', { scale: 'large' }];
    for (const state of states) {
      await save(() => ({ scaler: new Memory(state) }));
      const scaler = new optim.DynamicLossScaler();
      const before = scaler.stateDict();
      const loading = loadStates(await loadCheckpoint(directory), { scaler });
      await expect(loading).rejects.toThrow(CheckpointError);
      await expect(loading).rejects.toThrow(/scaler/);
      expect(scaler.stateDict()).toEqual(before);
    }
  });
});

describe('a checkpoint whose states are damaged', () => {
  const file = 'states-00001-of-00001.safetensors';

  it('is refused where their file is cut or missing, or a bit of it has flipped', async () => {
    const [folder = ''] = await save(() => ({ memory: new Memory(vector(1, 2)) }));
    const path = join(folder, file);
    const whole = await readFile(path);
    const flipped = whole.with(whole.byteLength - 1, (whole.at(-1) ?? 0) ^ 1);
    await writeFile(path, flipped);
    await expect(load(1)).rejects.toThrow(/expected CRC-32/);
    await truncate(path, 10);
    await expect(loadCheckpoint(directory)).rejects.toThrow(/expected \d+ bytes, found 10/);
    await rm(path);
    await expect(loadCheckpoint(directory)).rejects.toThrow(/it is missing/);
  });

  it.each([
    ['a tensor that is not there', /"name": "rank-0\/memory\/a"/g, '"name": "rank-0/memory/b"'],
    ['a place that is not there', /"path": \[\s*"a"\s*\]/, '"path": ["b"]'],
  ])('is refused where they name %s', async (_, text, replacement) => {
    const [folder = ''] = await save(() => ({ memory: new Memory({ a: vector(1) }) }));
    const path = join(folder, 'state.json');
    const index = await readFile(path, 'utf8');
    expect(index).toMatch(text);
    const at = index.lastIndexOf('rankStates');
    const changed = index.slice(0, at) + index.slice(at).replace(text, replacement);
    await writeFile(path, changed);
    await expect(load(1)).rejects.toThrow(CheckpointError);
  });
});

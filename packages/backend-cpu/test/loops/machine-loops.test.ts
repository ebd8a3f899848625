import { fork } from 'node:child_process';
import { once } from 'node:events';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cpu } from '../../src/cpu.ts';
import { loopMachine, type PlacedLoops } from '../../src/engines/loops/loop-machine.ts';
import type { LoopSpec, LoopStep } from '../../src/lanes/loop-spec.ts';
import { uniform } from '../wasm/kernel-fixture.ts';
import { randomLoop } from './random-loop.ts';
import { type LoopRun, runLoop } from './run-loop.ts';

const sets = ['AVX512-BF16', 'AVX-512', 'AVX2'] as const;
const codes = sets.map((set) => {
  const machine = loopMachine(set);
  const isNarrow = machine.kind === 'own' && machine.instructions === 'AVX2';
  const own = machine.kind === 'own' && isNarrow === (set === 'AVX2') ? machine.code : null;
  return { set, own };
});

const f32 = { dtype: 'f32', access: 'element', elementOffset: 0 } as const;
const add = (a: number, b: number): LoopStep => ({
  op: 'add',
  dtype: 'f32',
  inputDType: 'f32',
  inputs: [a, b],
});

/** The bits of infinity in 16 bits. What is above, without the sign, is a NaN. */
const INFINITY_BITS = { bf16: 0x7f80, f16: 0x7c00 };

/** Replaces every NaN by the same one, because processors choose the bits of a NaN, also its sign. */
function withOneNaN(bytes: Uint8Array, { stores }: LoopSpec): Uint8Array {
  const words = new Uint32Array(bytes.buffer, 0, bytes.byteLength >> 2);
  for (const [index, word] of words.entries()) {
    if ((word & 0x7fffffff) > 0x7f800000) words[index] = 0x7fc00000;
  }
  const halves = new Uint16Array(bytes.buffer, 0, bytes.byteLength >> 1);
  for (const { dtype } of stores) {
    if (dtype !== 'bf16' && dtype !== 'f16') continue;
    for (const [index, half] of halves.entries()) {
      if ((half & 0x7fff) > INFINITY_BITS[dtype]) halves[index] = INFINITY_BITS[dtype] + 1;
    }
  }
  return bytes;
}

/** Expects machine code to leave the same bytes in all of a loop's memory as WebAssembly does. */
function expectSame(
  own: PlacedLoops | null,
  spec: LoopSpec,
  sizes: readonly [number, number],
  run?: LoopRun,
): void {
  if (own === null) return;
  const [meant, found] = (['webassembly', own] as const).map((by) => runLoop(spec, sizes, by, run));
  expect(found && withOneNaN(found, spec)).toEqual(meant && withOneNaN(meant, spec));
}

describe.each(codes)('a loop in machine code of $set', ({ set, own }) => {
  it('gives the bits of WebAssembly, whatever it computes from whatever dtypes', () => {
    fc.assert(
      fc.property(
        fc.nat(),
        fc.integer({ min: 0, max: 5 }),
        fc.integer({ min: 1, max: 70 }),
        (seed, rows, columns) => {
          const spec = randomLoop(uniform(seed));
          expectSame(own, spec, spec.byRows ? [rows, columns] : [1, rows * columns]);
        },
      ),
      { numRuns: 60 },
    );
  });

  it('rounds all kinds of bits to bf16 as WebAssembly does, whether the result is read again or only stored', () => {
    const cast = (from: number, dtype: 'f32' | 'bf16', inputDType: 'f32' | 'bf16'): LoopStep => ({
      op: 'cast',
      dtype,
      inputDType,
      inputs: [from],
    });
    const stored: LoopSpec = {
      byRows: false,
      loads: [f32],
      steps: [cast(0, 'bf16', 'f32')],
      stores: [{ slot: 1, dtype: 'bf16' }],
    };
    const read: LoopSpec = {
      ...stored,
      steps: [...stored.steps, cast(1, 'f32', 'bf16')],
      stores: [...stored.stores, { slot: 2, dtype: 'f32' }],
    };
    // Each exponent with both signs, and with bits in and behind the last place that is kept.
    const places = [0, 1, 0x7fff, 0x8000, 0x8001, 0xffff, 0x1_7fff, 0x1_8000, 0x7f_8000, 0x7f_ffff];
    const kinds = Uint32Array.from(
      { length: 512 * places.length },
      (_, index) => ((index % 512) << 23) | (places[Math.floor(index / 512)] ?? 0),
    );
    const random = uniform(3);
    const bits = [
      kinds,
      // Rarely, single denormal values among others.
      Uint32Array.from({ length: 5000 }, () => {
        const exponent = random() < 0.02 ? 0 : 1 + Math.floor(random() * 254);
        return (exponent << 23) | Math.floor(random() * 0x80_0000);
      }),
    ];
    for (const words of bits) {
      const floats = (elements: number): Float32Array =>
        new Float32Array(words.slice(0, elements).buffer);
      for (const spec of [stored, read]) {
        for (const columns of [1, 17, 63, words.length]) {
          expectSame(own, spec, [1, columns], { floats });
        }
      }
    }
  });

  it('of any number of elements writes those and no others', () => {
    const spec: LoopSpec = {
      byRows: false,
      loads: [f32, f32],
      steps: [add(0, 1)],
      stores: [{ slot: 2, dtype: 'f32' }],
    };
    for (let columns = 0; columns <= 70; columns++) expectSame(own, spec, [1, columns]);
  });

  it('reads each element before it overwrites it, whichever result comes first', () => {
    const spec: LoopSpec = {
      byRows: false,
      loads: [f32, f32, f32],
      steps: [add(0, 1), add(2, 1)],
      stores: [
        { slot: 3, dtype: 'f32' },
        { slot: 4, dtype: 'f32' },
      ],
    };
    expectSame(own, spec, [1, 333], { inPlace: new Map([[0, 2]]) });
  });

  it('keeps more values at once than there are registers', () => {
    const loads = Array.from({ length: 40 }, () => f32);
    const steps: LoopStep[] = loads.map((_, load) => add(load, (load * 7) % 40));
    // The steps read the sums in the reverse of the order in which they are made.
    for (let step = 0; step < 39; step++) steps.push(add(79 - step, step === 0 ? 40 : 79 + step));
    const last = loads.length + steps.length - 1;
    expectSame(
      own,
      { byRows: false, loads, steps, stores: [{ slot: last, dtype: 'f32' }] },
      [1, 100],
    );
  });

  it.skipIf(own === null)('is left to WebAssembly where vectors have not what it takes', () => {
    const spec: LoopSpec = {
      byRows: false,
      loads: [{ ...f32, dtype: 'i32' }],
      steps: [{ op: 'div', dtype: 'i32', inputDType: 'i32', inputs: [0, 0] }],
      stores: [{ slot: 1, dtype: 'i32' }],
    };
    expect(() => own && runLoop(spec, [1, 4], own)).toThrow('machine code does not have all');
  });

  it.skipIf(own === null)('reads and writes nothing that is not part of an operand', async () => {
    const child = fork(new URL('./guard-pages.ts', import.meta.url), [set]);
    let made: unknown = 0;
    child.once('message', (count) => {
      made = count;
    });
    expect(await once(child, 'exit')).toEqual([0, null]);
    expect(made).toBeGreaterThan(0);
  });
});

it('a backend says what runs its loops, and why where WebAssembly does', async () => {
  for (const set of sets) {
    const { loops } = await cpu({ instructions: set });
    const machine = loopMachine(set);
    expect(loops).toEqual(
      machine.kind === 'own'
        ? { by: 'own', instructions: machine.instructions }
        : { by: 'webassembly', reason: machine.reason },
    );
  }
  const { loops: asked } = await cpu({ loops: 'webassembly' });
  expect(asked).toEqual({ by: 'webassembly', reason: 'it was asked for' });
});

import { instantiateKernels } from '@shardwise/wasm-assembler';
import { elementwiseLoop } from '../../src/lanes/elementwise-loop.ts';
import { type LoopCode, loopNumbers } from '../../src/lanes/loop-code.ts';
import { elementwiseKernel } from '../../src/emit/wasm/elementwise.ts';
import { laneBytes, type LoopSpec } from '../../src/lanes/loop-spec.ts';
import { sampleFloats, sharedMemory } from '../wasm/kernel-fixture.ts';

const GUARD_BYTES = 128;

/** The address of an operand and the number of its elements. */
interface Place {
  readonly address: number;
  readonly elements: number;
}

export interface LoopRun {
  /** Which stores write to which loads. */
  readonly inPlace?: ReadonlyMap<number, number>;
  /** Returns the contents of an f32 operand. Default: numbers of all kinds. */
  readonly floats?: (elements: number, seed: number) => ArrayLike<number>;
}

/** Runs a loop and returns the bytes of its memory. */
export function runLoop(
  spec: LoopSpec,
  [rows, columns]: readonly [number, number],
  by: LoopCode | 'webassembly',
  { inPlace = new Map(), floats = sampleFloats }: LoopRun = {},
): Uint8Array {
  const places: Place[] = [];
  let top = 64;
  const place = (elements: number, bytes: number): void => {
    places.push({ address: top, elements });
    top += Math.ceil((elements * bytes + GUARD_BYTES) / 64) * 64;
  };
  const counts = { element: rows * columns, row: rows, column: columns, scalar: 2 };
  for (const { dtype, access } of spec.loads) place(counts[access], laneBytes[dtype]);
  for (const [store, { dtype }] of spec.stores.entries()) {
    const target = places[inPlace.get(store) ?? -1];
    if (target === undefined) place(rows * columns, laneBytes[dtype]);
    else places.push(target);
  }
  const memory = sharedMemory(top);
  const bytes = new Uint8Array(memory.buffer);
  for (const [load, { dtype }] of spec.loads.entries()) {
    const { address = 0, elements = 0 } = places[load] ?? {};
    if (dtype === 'f32')
      new Float32Array(memory.buffer, address, elements).set(floats(elements, load + 1));
    else
      fill(bytes.subarray(address, address + elements * laneBytes[dtype]), load, dtype === 'bool');
  }
  const addresses = places.map(({ address }) => address);
  if (by === 'webassembly') {
    const kernel = instantiateKernels(new Map([['loop', elementwiseKernel(spec)]]), memory).get(
      'loop',
    );
    kernel?.(rows, columns, ...addresses);
  } else {
    const routine = by.routine(JSON.stringify(spec), () => elementwiseLoop(spec));
    if (routine === undefined)
      throw new Error('machine code does not have all that the loop takes');
    const values = [...addresses.keys()];
    const list = by.link(memory, [{ routine, numbers: loopNumbers(rows, columns), values }]);
    list.run((value) => addresses[value] ?? 0);
  }
  return bytes.slice();
}

function fill(bytes: Uint8Array, seed: number, isBool: boolean): void {
  for (const index of bytes.keys()) {
    const value = Math.imul(index + 7 * seed + 1, 0x9e3779b1) >>> 24;
    bytes[index] = isBool ? value & 1 : value;
  }
}

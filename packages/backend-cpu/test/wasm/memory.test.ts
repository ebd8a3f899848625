import { createSharedMemory } from '@shardwise/wasm-assembler';
import { expect, test } from 'vitest';
import { KernelFixture } from './kernel-fixture.ts';

const PAGES_PER_GIB = 16384;

/** Computes y = softmax(x) + 1 with y at `address` and x at the start of the memory. */
function runAt(memory: WebAssembly.Memory, address: number): number[] {
  const fixture = new KernelFixture();
  const shape = [1, 2];
  const x = fixture.input([3, 3], 'f32', shape);
  const weights = fixture.op('softmax', [x], {}, shape);
  const y = fixture.op('add', [weights, fixture.constant(1, shape)], {}, shape);
  fixture.outputs.push(y);
  new Float32Array(memory.buffer, 0, 2).set([3, 3]);
  fixture.compile(memory).run((id) => (id === x ? 0 : address + (id === y ? 0 : 64)));
  return [...new Float32Array(memory.buffer, address, 2)];
}

test('kernels reach the upper half of a 32-bit memory', () => {
  const pages = 3 * PAGES_PER_GIB;
  const memory = new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true });
  expect(runAt(memory, 2 ** 31 + 2 ** 29)).toEqual([1.5, 1.5]);
});

test('kernels reach what lies beyond 4 GiB', () => {
  const memory = createSharedMemory(6 * 2 ** 30);
  expect(runAt(memory, 2 ** 32)).toEqual([1.5, 1.5]);
  expect(runAt(memory, 2 ** 32 + 2 ** 30)).toEqual([1.5, 1.5]);
});

test('kernels run on memory that is not shared', () => {
  expect(runAt(new WebAssembly.Memory({ initial: 1 }), 1024)).toEqual([1.5, 1.5]);
});

test('what no kernel computes is refused by name', () => {
  const fixture = new KernelFixture();
  const x = fixture.input([1, 2]);
  fixture.outputs.push(fixture.op('sin', [x], {}, [2]));
  expect(() => fixture.run()).toThrow(/sin.*isFusable or wasmHandles/);
});

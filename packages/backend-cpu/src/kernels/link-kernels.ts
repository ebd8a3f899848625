import { IndexError } from '@shardwise/core/spec';
import type { Kernel } from '@shardwise/wasm-assembler';
import { type LoopCall, type LoopCode, loopNumbers } from '../lanes/loop-code.ts';
import type { KernelPlan } from './plan-kernels.ts';
import type { KernelCall } from './kernel-call.ts';
import { type KernelLibrary, libraryOf } from '../emit/wasm/kernel-library.ts';
import type { KernelExecutable } from './kernel-program.ts';

/**
 * The memory where all values lie, and the machine code that runs loops there. Null means that WebAssembly runs all
 * loops.
 */
export interface KernelTarget {
  readonly memory: WebAssembly.Memory;
  readonly loops: LoopCode | null;
}

type AddressOf = (value: number) => number;

/** Calls that run together, in order. */
interface Part {
  readonly calls: readonly KernelCall[];
  /**
   * Runs the calls. Returns the place of an index that is out of range. Otherwise returns a negative number or nothing.
   */
  readonly run: (place: AddressOf) => number | undefined;
}

/** Makes kernels runnable. */
export function linkKernels(target: KernelTarget, plan: KernelPlan): KernelExecutable {
  const { direct, copies, storage, inputCount } = plan;
  const { memory } = target;
  const parts = partsOf(plan.calls, target).map(({ calls, run }) => ({
    run,
    indices: calls[0]?.indices,
    updates: calls.some(({ values }) => values.some((value) => direct.has(value))),
  }));
  let placed: AddressOf | undefined;
  let place: AddressOf = () => 0;
  return {
    storage,
    run(address) {
      if (address !== placed) {
        place = (value) => address(direct.get(value) ?? value);
        placed = address;
      }
      let updated = false;
      for (const { run, indices, updates } of parts) {
        const element = run(place);
        if (indices !== undefined && element !== undefined && element >= 0) {
          const [index = 0] = new Int32Array(memory.buffer, place(indices.value) + 4 * element, 1);
          const instruction = indices.reader - inputCount;
          const { op, size } = indices;
          throw IndexError.ofRun({ op, instruction, index, element, size, updated });
        }
        updated ||= updates;
      }
      for (const { value, target: to, byteLength } of copies) {
        const from = address(value);
        new Uint8Array(memory.buffer).copyWithin(address(to), from, from + byteLength);
      }
    },
  };
}

/** Divides calls into parts. Consecutive loops in machine code are one part, which one call of native code runs. */
function partsOf(calls: readonly KernelCall[], { memory, loops }: KernelTarget): Part[] {
  const library = libraryOf(memory);
  const parts: Part[] = [];
  let together: { readonly call: KernelCall; readonly loop: LoopCall }[] = [];
  const flush = (): void => {
    if (loops === null || together.length === 0) return;
    const list = loops.link(
      memory,
      together.map(({ loop }) => loop),
    );
    const run = (place: AddressOf): undefined => {
      list.run(place);
    };
    parts.push({ calls: together.map(({ call }) => call), run });
    together = [];
  };
  for (const call of calls) {
    const loop = loops === null ? undefined : loopOf(call, loops);
    if (loop !== undefined) {
      together.push({ call, loop });
      continue;
    }
    flush();
    parts.push({ calls: [call], run: kernelOf(call, library) });
  }
  flush();
  return parts;
}

function loopOf(call: KernelCall, loops: LoopCode): LoopCall | undefined {
  const { key, loop, routine: source, sizes, values, byteOffsets } = call;
  const build = loop ? () => loops.lanes(loop) : source && (() => source);
  const routine = build && loops.routine(key, build);
  if (routine === undefined) return undefined;
  const [rows = 0, columns = 0] = sizes;
  const numbers = loop === undefined ? sizes : loopNumbers(rows, columns);
  return { routine, numbers, values, ...(byteOffsets && { byteOffsets }) };
}

function kernelOf(call: KernelCall, library: KernelLibrary): Part['run'] {
  const { key, build, sizes, values, byteOffsets } = call;
  const kernel: Kernel = library.kernel(key, build);
  let placed: AddressOf | undefined;
  let parameters: readonly number[] = [];
  return (place) => {
    if (place !== placed) {
      const addresses = values.map((value, i) => place(value) + (byteOffsets?.[i] ?? 0));
      parameters = [...sizes, ...addresses];
      placed = place;
    }
    return kernel(...parameters);
  };
}

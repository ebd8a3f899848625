import { functionsOf } from '../wgsl/library.ts';
import { Emitter, type Place } from './emitter.ts';
import type { Kernel } from './kernel.ts';
import type { Values } from './values.ts';

/** Values in memory that a kernel has, each once, with the one that it is guarded by. */
export function slotsOf({ reads, writes }: Kernel, guard: number | undefined): readonly number[] {
  return [...new Set([...reads, ...writes, ...(guard === undefined ? [] : [guard])])];
}

/** Numbers of the groups of threads of a dispatch, behind a kernel's own. */
const rangeNumbers = 6;

/** How many numbers a kernel has as parameters. */
export function parameterCount(kernel: Kernel, guard: number | undefined): number {
  return slotsOf(kernel, guard).length + kernel.numbers.length + rangeNumbers;
}

/**
 * The WGSL of a kernel. `arrays` says for each slot in which buffer it lies: WebGPU takes a buffer that is written once only, so slots
 * of one buffer are one binding. `guard` is the value whose first word, if it is not 0, has the kernel do nothing. The parameters are
 * where each slot begins, in words, then the kernel's own numbers, the first group of threads of a dispatch, and how many the kernel has.
 */
export function kernelText(
  values: Values,
  kernel: Kernel,
  arrays: readonly number[],
  guard: number | undefined,
): string {
  const slots = slotsOf(kernel, guard);
  const number = (i: number): string => `parameters[${i >> 2}][${i & 3}]`;
  const places = new Map<number, Place>(
    slots.map((id, slot) => [id, { array: `b${arrays[slot] ?? 0}`, offset: `o${slot}` }]),
  );
  const emitter = new Emitter({ values, placeOf: (id) => places.get(id) });
  const place = (id: number): Place => {
    const found = places.get(id);
    if (found === undefined) throw new RangeError(`value ${id} has no slot`);
    return found;
  };
  const own = slots.length + kernel.numbers.length;
  const counts = (from: number): string =>
    `vec3<u32>(${[0, 1, 2].map((dim) => number(from + dim)).join(', ')})`;
  emitter.line(`let group = workgroup + ${counts(own)};`);
  emitter.line(`let groups = ${counts(own + 3)};`);
  for (const slot of slots.keys()) emitter.line(`let o${slot} = ${number(slot)};`);
  if (guard !== undefined) {
    const { array, offset } = place(guard);
    emitter.line(`if (${array}[${offset}] != 0u) { return; }`);
  }
  kernel.body({ emitter, place, number: (i) => number(slots.length + i) });
  const count = Math.ceil((own + rangeNumbers) / 4);
  const code = `${kernel.shared ?? ''}\n${emitter.text}`;
  return [
    `// ${kernel.label}`,
    ...(/\bf16\b/.test(code) ? ['enable f16;'] : []),
    `@group(0) @binding(0) var<uniform> parameters: array<vec4<u32>, ${count}>;`,
    ...[...new Set(arrays)]
      .toSorted((a, b) => a - b)
      .map(
        (array) =>
          `@group(0) @binding(${array + 1}) var<storage, read_write> b${array}: array<u32>;`,
      ),
    kernel.shared ?? '',
    functionsOf(code),
    `@compute @workgroup_size(${kernel.workgroup.join(', ')})`,
    'fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_id) thread: vec3<u32>) {',
    emitter.text,
    '}',
  ].join('\n');
}

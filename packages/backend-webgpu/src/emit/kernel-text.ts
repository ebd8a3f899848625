import { functionsOf } from '../wgsl/library.ts';
import { Emitter, type Place } from './emitter.ts';
import type { Kernel } from './kernel.ts';
import type { Values } from '../program/values.ts';

/** The numbers of the bindings that hold the words of a value. Each but the last one has `windowWords` words. */
export type Windows = readonly number[];

/** The values in memory that a kernel uses, each once, including the value that guards it. */
export function slotsOf({ reads, writes }: Kernel, guard: number | undefined): readonly number[] {
  return [...new Set([...reads, ...writes, ...(guard === undefined ? [] : [guard])])];
}

/** How many numbers describe the groups of a dispatch. They come after a kernel's own numbers, and before a 0. */
const RANGE_NUMBERS = 6;

/** How many numbers a kernel has as parameters. */
export function parameterCount(kernel: Kernel, guard: number | undefined): number {
  return slotsOf(kernel, guard).length + kernel.numbers.length + RANGE_NUMBERS + 1;
}

/**
 * The WGSL of a kernel. `windows` says for each slot in which bindings it lies. WebGPU lets a dispatch bind a written
 * buffer only once, so slots of one buffer share a binding. A slot that is larger than a binding has several. If the
 * first word of the value `guard` is not 0, the kernel does nothing. The parameters are where each slot begins, in
 * words, then the kernel's own numbers, then the first group of threads of the dispatch, how many groups the kernel has,
 * and 0.
 */
export function kernelText(
  values: Values,
  kernel: Kernel,
  { windows, windowWords }: { readonly windows: readonly Windows[]; readonly windowWords: number },
  guard: number | undefined,
): string {
  const slots = slotsOf(kernel, guard);
  const number = (i: number): string => `parameters[${i >> 2}][${i & 3}]`;
  const places = new Map<number, Place>(
    slots.map((id, slot) => [id, placeIn(slot, windows[slot] ?? [])]),
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
    emitter.line(`if (${place(guard).read('0u')} != 0u) { return; }`);
  }
  kernel.body({ emitter, place, number: (i) => number(slots.length + i) });
  const count = Math.ceil(parameterCount(kernel, guard) / 4);
  const code = `${kernel.shared ?? ''}\n${emitter.text}`;
  const functions = functionsOf(code);
  return [
    `// ${kernel.label}`,
    ...(/\bf16\b/.test(code) ? ['enable f16;'] : []),
    `@group(0) @binding(0) var<uniform> parameters: array<vec4<u32>, ${count}>;`,
    ...[...new Set(windows.flat())]
      .toSorted((a, b) => a - b)
      .map(
        (array) =>
          `@group(0) @binding(${array + 1}) var<storage, read_write> b${array}: array<u32>;`,
      ),
    ...windows.flatMap((own, slot) => (own.length < 2 ? [] : accessors(slot, own, windowWords))),
    kernel.shared ?? '',
    ...(functions.includes('no_bits()') ? [noBits(number(own + RANGE_NUMBERS))] : []),
    functions,
    `@compute @workgroup_size(${kernel.workgroup.join(', ')})`,
    'fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_id) thread: vec3<u32>) {',
    emitter.text,
    '}',
  ].join('\n');
}

/** A function that returns the parameter 0, which is no constant for a compiler. */
function noBits(zero: string): string {
  return `fn no_bits() -> u32 { return ${zero}; }`;
}

function placeIn(slot: number, windows: Windows): Place {
  if (windows.length > 1) {
    return {
      read: (word) => `read_${slot}(o${slot} + ${word})`,
      write: (word, value) => `write_${slot}(o${slot} + ${word}, ${value});`,
    };
  }
  const element = (word: string): string => `b${windows[0] ?? 0}[o${slot} + ${word}]`;
  return { read: element, write: (word, value) => `${element(word)} = ${value};` };
}

/** WGSL functions that read and write a word of a slot. They find the binding in which it lies. */
function accessors(slot: number, windows: Windows, windowWords: number): string[] {
  const each = (use: (element: string) => string): string =>
    windows
      .map((binding, i) => {
        const before = i * windowWords;
        const used = use(`b${binding}[at${i === 0 ? '' : ` - ${before}u`}]`);
        const isLast = i === windows.length - 1;
        return isLast ? used : `if (at < ${before + windowWords}u) { ${used} }`;
      })
      .join('\n');
  return [
    `fn read_${slot}(at: u32) -> u32 {\n${each((element) => `return ${element};`)}\n}`,
    `fn write_${slot}(at: u32, word: u32) {\n${each((element) => `${element} = word; return;`)}\n}`,
  ];
}

import type { DType, Instruction } from '@shardwise/core/spec';
import type { Emitter } from '../emit/emitter.ts';
import { type Kernel, spread } from '../emit/kernel.ts';
import { countOf, inputAt, type Values } from '../program/values.ts';
import { storageOf } from '../wgsl/registers.ts';
import { pointwise } from './pointwise.ts';

export type ReduceInstruction = Extract<Instruction, { op: 'sum' | 'max' | 'argMax' }>;

const THREADS = 256;
/** If neighbouring outputs are sums of neighbouring terms, one group makes this many outputs. */
const COLUMNS_TOGETHER = 8;
/** A thread reads this many terms before it adds them up, because each read takes long. */
const READ_TOGETHER = 4;
/** This many terms are summed before they are added to the total, which loses fewer digits that way. */
const BLOCK_TERMS = 32;
/** Reductions of fewer terms are made by one thread each. */
const SHORT_TERMS = 64;

/** Sums, maxima and their indices, over some dims. */
export function reduce(
  values: Values,
  root: number,
  instruction: ReduceInstruction,
  reads: readonly number[],
): Kernel {
  const input = inputAt(instruction, 0);
  const { shape, dtype } = values.type(input);
  const reduced = new Set(
    instruction.op === 'argMax' ? [instruction.params.dim] : instruction.params.dims,
  );
  const sizes = shape.filter((_, dim) => reduced.has(dim));
  const terms = countOf(sizes);
  const outputs = countOf(instruction.shape);
  /** The element that is term `at` of the output `linear`. */
  const termOf = (emitter: Emitter, linear: string, at: string): string => {
    const kept = [...emitter.dims({ linear }, instruction.shape)];
    const along = [...emitter.dims({ linear: at }, sizes)];
    const dims = shape.map((_, dim) => (reduced.has(dim) ? along.shift() : kept.shift()) ?? '0u');
    return emitter.value(input, { dims });
  };
  if (terms === 0)
    return pointwise(values, [root], [], instruction.op, () => `${register(instruction.dtype)}(0)`);
  const fold = folds[instruction.op];
  const packed = storageOf[instruction.dtype].bytes < 4;
  if (packed || terms < SHORT_TERMS || (outputs > 4096 && terms < 1024)) {
    return pointwise(values, [root], reads, instruction.op, (emitter, _, linear) => {
      const { names, declare, add, block, end } = fold(emitter, dtype);
      declare();
      const at = emitter.fresh();
      const inner = emitter.inner();
      add(inner, termOf(inner, linear, at), at);
      block(inner, at);
      emitter.line(`for (var ${at} = 0u; ${at} < ${terms}u; ${at}++) {\n${inner.text}\n}`);
      end(emitter);
      return names.result;
    });
  }
  // Neighbouring threads read neighbouring elements.
  const columns = reduced.has(shape.length - 1) ? 1 : COLUMNS_TOGETHER;
  const parts = THREADS / columns;
  const isTrailing = shape.every((_, dim) => reduced.has(dim) || !reduced.has(dim - 1));
  return {
    label: instruction.op,
    reads,
    writes: [root],
    workgroup: [columns, parts],
    groups: spread(Math.ceil(outputs / columns)),
    numbers: [outputs],
    along: {
      dim: 'all',
      elements: columns,
      root,
      inputs: new Map(isTrailing ? [[input, terms]] : []),
    },
    shared: [
      `var<workgroup> partial: array<${register(dtype)}, ${THREADS}>;`,
      ...(instruction.op === 'argMax' ? [`var<workgroup> places: array<u32, ${THREADS}>;`] : []),
    ].join('\n'),
    body: ({ emitter, place, number }) => {
      const output = emitter.let(`(group.x + group.y * groups.x) * ${columns}u + thread.x`);
      // Threads after the last output take part with the last one, because all threads of a group wait for each other.
      const linear = emitter.let(`min(${output}, ${number(0)} - 1u)`);
      emitter.line(`let slot = thread.y * ${columns}u + thread.x;`);
      const { names, declare, add, block, end, merge } = fold(emitter, dtype);
      declare();
      const at = emitter.fresh();
      emitter.line(`var ${at} = thread.y;`);
      const loop = (count: number): void => {
        const inner = emitter.inner();
        const places = Array.from({ length: count }, (_, i) =>
          i === 0 ? at : inner.let(`${at} + ${i * parts}u`),
        );
        const read = places.map((place) => termOf(inner, linear, place));
        for (const [i, place] of places.entries()) {
          add(inner, read[i] ?? '', place);
          block(inner, `${place} / ${parts}u`);
        }
        const last = count === 1 ? at : `${at} + ${(count - 1) * parts}u`;
        const step = `${at} += ${count * parts}u`;
        emitter.line(`for (; ${last} < ${terms}u; ${step}) {\n${inner.text}\n}`);
      };
      if (terms >= READ_TOGETHER * parts) loop(READ_TOGETHER);
      if (terms % (READ_TOGETHER * parts) !== 0) loop(1);
      end(emitter);
      emitter.line(`partial[slot] = ${names.value};`);
      if (instruction.op === 'argMax') emitter.line(`places[slot] = ${names.place};`);
      emitter.line('workgroupBarrier();');
      emitter.line(`for (var half = ${THREADS / 2}u; half >= ${columns}u; half >>= 1u) {`);
      emitter.line(`if (slot < half) {\n${merge}\n}`);
      emitter.line('workgroupBarrier();\n}');
      const result = instruction.op === 'argMax' ? 'bitcast<i32>(places[slot])' : 'partial[slot]';
      const stored = place(root).write(linear, storageOf[instruction.dtype].store(result));
      emitter.line(`if (thread.y == 0u && ${output} < ${number(0)}) { ${stored} }`);
    },
  };
}

function register(dtype: DType): string {
  return storageOf[dtype].register;
}

interface Fold {
  readonly names: { readonly value: string; readonly place: string; readonly result: string };
  readonly declare: () => void;
  readonly add: (inner: Emitter, term: string, at: string) => void;
  /** Is called after a term. The term's number among those of the thread says whether a block has ended. */
  readonly block: (inner: Emitter, number: string) => void;
  readonly end: (emitter: Emitter) => void;
  /** A statement that merges `slot + half` into `slot`. */
  readonly merge: string;
}

const folds: Readonly<Record<ReduceInstruction['op'], (emitter: Emitter, dtype: DType) => Fold>> = {
  sum: (emitter, dtype) => {
    const [sum, part] = [emitter.fresh(), emitter.fresh()];
    const type = register(dtype);
    return {
      names: { value: sum, place: sum, result: sum },
      declare: () => emitter.line(`var ${sum} = ${type}(0); var ${part} = ${type}(0);`),
      add: (inner, term) => inner.line(`${part} += ${term};`),
      block: (inner, number) =>
        inner.line(
          `if ((${number}) % ${BLOCK_TERMS}u == ${BLOCK_TERMS - 1}u) { ${sum} += ${part}; ${part} = ${type}(0); }`,
        ),
      end: () => emitter.line(`${sum} += ${part};`),
      merge: 'partial[slot] += partial[slot + half];',
    };
  },
  max: (emitter, dtype) => {
    const value = emitter.fresh();
    const larger = (a: string, b: string): string =>
      dtype === 'f32'
        ? `larger_of(${a}, ${b})`
        : dtype === 'bool'
          ? `(${a} || ${b})`
          : `max(${a}, ${b})`;
    return {
      names: { value, place: value, result: value },
      declare: () => emitter.line(`var ${value} = ${lowest(dtype)};`),
      add: (inner, term) => inner.line(`${value} = ${larger(value, term)};`),
      block: () => undefined,
      end: () => undefined,
      merge: `partial[slot] = ${larger('partial[slot]', 'partial[slot + half]')};`,
    };
  },
  argMax: (emitter, dtype) => {
    const [value, place] = [emitter.fresh(), emitter.fresh()];
    // A NaN is larger than all other numbers, and the first of equal numbers counts. 0xffffffff means that there is no
    // place yet.
    const before = (x: string, i: string, y: string, j: string): string => {
      const nan = (name: string): string => (dtype === 'f32' ? `is_nan(${name})` : 'false');
      const number = (name: string): string => (dtype === 'bool' ? `u32(${name})` : name);
      const more = `((${nan(x)} && !${nan(y)}) || (!${nan(y)} && ${number(x)} > ${number(y)}))`;
      const same = `((${nan(x)} && ${nan(y)}) || ${number(x)} == ${number(y)})`;
      return `${j} == 0xffffffffu || (${i} != 0xffffffffu && (${more} || (${same} && ${i} < ${j})))`;
    };
    return {
      names: { value, place, result: `bitcast<i32>(${place})` },
      declare: () => emitter.line(`var ${value} = ${lowest(dtype)}; var ${place} = 0xffffffffu;`),
      add: (inner, term, at) =>
        inner.line(
          `if (${before(term, at, value, place)}) { ${value} = ${term}; ${place} = ${at}; }`,
        ),
      block: () => undefined,
      end: () => undefined,
      merge: [
        `if (${before('partial[slot + half]', 'places[slot + half]', 'partial[slot]', 'places[slot]')}) {`,
        'partial[slot] = partial[slot + half]; places[slot] = places[slot + half]; }',
      ].join('\n'),
    };
  },
};

function lowest(dtype: DType): string {
  if (dtype === 'f32') return 'f32_of_bits(0xff800000u)';
  return dtype === 'bool' ? 'false' : 'i32(-2147483648)';
}

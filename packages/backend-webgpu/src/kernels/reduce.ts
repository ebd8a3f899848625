import type { DType, Instruction } from '@shardwise/core/spec';
import type { Emitter } from '../compile/emitter.ts';
import { type Kernel, spread } from '../compile/kernel.ts';
import { countOf, inputAt, type Values } from '../compile/values.ts';
import { storageOf } from '../wgsl/registers.ts';
import { pointwise } from './pointwise.ts';

export type ReduceInstruction = Extract<Instruction, { op: 'sum' | 'max' | 'argMax' }>;

const lanes = 256;
/** A block of terms is summed before it is added to the sum, which so keeps its digits. */
const blockTerms = 32;
/** Shorter reductions are made by one thread each. */
const shortTerms = 64;

/** Sums, maxima and their places, over some dims. */
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
  /** The term `at` of output `linear`. */
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
  if (packed || terms < shortTerms || (outputs > 4096 && terms < 1024)) {
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
  return {
    label: instruction.op,
    reads,
    writes: [root],
    workgroup: [lanes, 1],
    groups: spread(outputs),
    numbers: [outputs],
    shared: [
      `var<workgroup> partial: array<${register(dtype)}, ${lanes}>;`,
      ...(instruction.op === 'argMax' ? [`var<workgroup> places: array<u32, ${lanes}>;`] : []),
    ].join('\n'),
    body: ({ emitter, place, number }) => {
      const linear = emitter.let('group.x + group.y * groups.x');
      emitter.line(`if (${linear} >= ${number(0)}) { return; }`);
      const { names, declare, add, block, end, merge } = fold(emitter, dtype);
      declare();
      const at = emitter.fresh();
      const inner = emitter.inner();
      add(inner, termOf(inner, linear, at), at);
      block(inner, `${at} / ${lanes}u`);
      emitter.line(
        `for (var ${at} = thread.x; ${at} < ${terms}u; ${at} += ${lanes}u) {\n${inner.text}\n}`,
      );
      end(emitter);
      emitter.line(`partial[thread.x] = ${names.value};`);
      if (instruction.op === 'argMax') emitter.line(`places[thread.x] = ${names.place};`);
      emitter.line('workgroupBarrier();');
      emitter.line(`for (var half = ${lanes / 2}u; half > 0u; half >>= 1u) {`);
      emitter.line(`if (thread.x < half) {\n${merge}\n}`);
      emitter.line('workgroupBarrier();\n}');
      const { array, offset } = place(root);
      const result = instruction.op === 'argMax' ? 'bitcast<i32>(places[0])' : 'partial[0]';
      emitter.line(
        `if (thread.x == 0u) { ${array}[${offset} + ${linear}] = ${storageOf[instruction.dtype].store(result)}; }`,
      );
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
  /** After a term, whose number decides whether a block has ended. */
  readonly block: (inner: Emitter, number: string) => void;
  readonly end: (emitter: Emitter) => void;
  /** Joins what thread x + half has to what thread x has. */
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
          `if ((${number}) % ${blockTerms}u == ${blockTerms - 1}u) { ${sum} += ${part}; ${part} = ${type}(0); }`,
        ),
      end: () => emitter.line(`${sum} += ${part};`),
      merge: 'partial[thread.x] += partial[thread.x + half];',
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
      merge: `partial[thread.x] = ${larger('partial[thread.x]', 'partial[thread.x + half]')};`,
    };
  },
  argMax: (emitter, dtype) => {
    const [value, place] = [emitter.fresh(), emitter.fresh()];
    // A NaN is larger than all others, and the first of equals counts; no place is beyond all.
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
        `if (${before('partial[thread.x + half]', 'places[thread.x + half]', 'partial[thread.x]', 'places[thread.x]')}) {`,
        'partial[thread.x] = partial[thread.x + half]; places[thread.x] = places[thread.x + half]; }',
      ].join('\n'),
    };
  },
};

function lowest(dtype: DType): string {
  if (dtype === 'f32') return 'f32_of_bits(0xff800000u)';
  return dtype === 'bool' ? 'false' : 'i32(-2147483648)';
}

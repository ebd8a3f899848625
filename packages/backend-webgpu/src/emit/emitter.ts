import type { Instruction, Shape } from '@shardwise/core/spec';
import { elementOf, isElementwise, opaqueIn } from '../wgsl/elementwise.ts';
import { literal, storageOf } from '../wgsl/registers.ts';
import { countOf, inputAt, type Values } from '../program/values.ts';

/**
 * Names an element of a value by its number in row-major order, or by its index along each dim. All are expressions of
 * type u32.
 */
export type Index = { readonly linear: string } | { readonly dims: readonly string[] };

/** Where a value lies in memory. Words are counted from the first word of the value. */
export interface Place {
  /** An expression that reads a word. */
  readonly read: (word: string) => string;
  /** A statement that writes a word. */
  readonly write: (word: string, value: string) => string;
}

export interface EmitterContext {
  readonly values: Values;
  /** Where a value lies in memory. Undefined for a value that the kernel computes where it reads it. */
  readonly placeOf: (id: number) => Place | undefined;
}

/** Writes WGSL that computes elements of values. A scope computes an expression once, and then uses its name again. */
export class Emitter {
  readonly #context: EmitterContext;
  readonly #parent: Emitter | undefined;
  readonly #lines: string[] = [];
  readonly #known = new Map<string, string>();
  readonly #names: { next: number };

  constructor(context: EmitterContext, parent?: Emitter) {
    this.#context = context;
    this.#parent = parent;
    this.#names = parent === undefined ? { next: 0 } : parent.#names;
  }

  get text(): string {
    return this.#lines.join('\n');
  }

  line(text: string): void {
    this.#lines.push(text);
  }

  /** A scope inside this one. What it computes is not known outside. */
  inner(): Emitter {
    return new Emitter(this.#context, this);
  }

  /** A name for the value of an expression. The first call declares it. */
  let(expression: string): string {
    const known = this.#find(expression);
    if (known !== undefined) return known;
    const name = this.fresh();
    this.line(`let ${name} = ${expression};`);
    this.#known.set(expression, name);
    return name;
  }

  fresh(): string {
    return `t${this.#names.next++}`;
  }

  /** The name of a register that holds the element of a value at an index. */
  value(id: number, index: Index): string {
    const key = keyOf(id, index);
    const known = this.#find(key);
    if (known !== undefined) return known;
    const { shape, dtype } = this.#context.values.type(id);
    if (countOf(shape) === 0) return literal(0, dtype);
    const name =
      this.#context.placeOf(id) === undefined ? this.compute(id, index) : this.#load(id, index);
    this.#known.set(key, name);
    return name;
  }

  /** Does what `value` does, but computes the element even if the value lies in memory. */
  compute(id: number, index: Index): string {
    const instruction = this.#context.values.instruction(id);
    if (instruction === undefined) throw new RangeError(`input ${id} is not in memory`);
    return this.let(this.#expression(instruction, index));
  }

  /** Declares that the kernel has computed an element, so that `value` gives `name` for it from now on. */
  keep(id: number, index: Index, name: string): void {
    this.#known.set(keyOf(id, index), name);
  }

  /** The name that `keep` was given for an element. */
  known(id: number, index: Index): string | undefined {
    return this.#find(keyOf(id, index));
  }

  linear(index: Index, shape: Shape): string {
    if ('linear' in index) return index.linear;
    const terms: string[] = [];
    let stride = 1;
    for (let dim = shape.length - 1; dim >= 0; dim--) {
      const at = index.dims[dim] ?? '0u';
      if (at !== '0u' && shape[dim] !== 1) terms.unshift(stride === 1 ? at : `${at} * ${stride}u`);
      stride *= shape[dim] ?? 1;
    }
    return terms.length === 0
      ? '0u'
      : terms.length === 1 && stride === 1
        ? (terms[0] ?? '0u')
        : this.let(terms.join(' + '));
  }

  dims(index: Index, shape: Shape): readonly string[] {
    if ('dims' in index) return index.dims;
    const dims: string[] = [];
    let rest = index.linear;
    const last = shape.findIndex((size) => size !== 1);
    for (let dim = shape.length - 1; dim >= 0; dim--) {
      const size = shape[dim] ?? 1;
      if (size === 1) dims.unshift('0u');
      else if (dim === last) dims.unshift(rest);
      else {
        dims.unshift(this.let(`${rest} % ${size}u`));
        rest = this.let(`${rest} / ${size}u`);
      }
    }
    return dims;
  }

  #find(key: string): string | undefined {
    const known = this.#known.get(key);
    return known ?? (this.#parent === undefined ? undefined : this.#parent.#find(key));
  }

  #load(id: number, index: Index): string {
    const { values, placeOf } = this.#context;
    const { shape, dtype } = values.type(id);
    const place = placeOf(id);
    if (place === undefined) throw new RangeError(`value ${id} is not in memory`);
    const at = this.linear(index, shape);
    const { bytes, load } = storageOf[dtype];
    if (bytes === 4) return this.let(load(place.read(at)));
    if (bytes === 8) {
      const low = this.let(`${at} * 2u`);
      return this.let(load(`vec2<u32>(${place.read(low)}, ${place.read(`${low} + 1u`)})`));
    }
    const [shift, last, mask] = bytes === 2 ? [1, 1, 65_535] : [2, 3, 255];
    const word = place.read(`(${at} >> ${shift}u)`);
    return this.let(load(`((${word} >> ((${at} & ${last}u) * ${8 * bytes}u)) & ${mask}u)`));
  }

  #expression(instruction: Instruction, index: Index): string {
    const { values } = this.#context;
    const { shape, dtype } = instruction;
    if (isElementwise(instruction)) {
      const first = inputAt(instruction, instruction.op === 'where' ? 1 : 0);
      const inputs = instruction.inputs.map((id) => this.value(id, index));
      return elementOf(
        instruction,
        instruction.op === 'where' ? whereInputs(inputs) : inputs,
        values.type(first).dtype,
      );
    }
    switch (instruction.op) {
      case 'constant':
        return opaqueIn(dtype, literal(instruction.params.value, dtype));
      case 'iota':
        return `bitcast<i32>(${this.dims(index, shape)[instruction.params.dim] ?? '0u'})`;
      case 'random': {
        const key = inputAt(instruction, 0);
        const [first, second] = ['0u', '1u'].map(
          (linear) => `bitcast<u32>(${this.value(key, { linear })})`,
        );
        return `random_bits(${first}, ${second}, ${this.linear(index, shape)})`;
      }
      case 'gelu':
      case 'geluGrad':
        return this.#gelu(instruction, index);
      case 'reshape':
        return this.value(inputAt(instruction, 0), { linear: this.linear(index, shape) });
      case 'permute': {
        const at = this.dims(index, shape);
        const dims: string[] = [];
        for (const [out, dim] of instruction.params.order.entries()) dims[dim] = at[out] ?? '0u';
        return this.value(inputAt(instruction, 0), { dims });
      }
      case 'expand': {
        const input = inputAt(instruction, 0);
        const sizes = values.shape(input);
        if (countOf(sizes) === countOf(shape)) return this.value(input, index);
        const dims = this.dims(index, shape).map((at, dim) => (sizes[dim] === 1 ? '0u' : at));
        return this.value(input, { dims });
      }
      case 'slice': {
        const { starts, steps } = instruction.params;
        const dims = this.dims(index, shape).map((at, dim) => {
          const [start = 0, step = 1] = [starts[dim], steps[dim]];
          if (start === 0 && step === 1) return at;
          return this.let(`${at}${step === 1 ? '' : ` * ${step}u`} + ${start}u`);
        });
        return this.value(inputAt(instruction, 0), { dims });
      }
      case 'pad':
        return this.#pad(instruction, index);
      case 'concat':
        return this.#concat(instruction, index);
      case 'gather':
      case 'indexSelect': {
        const [x, at] = [inputAt(instruction, 0), inputAt(instruction, 1)];
        const { dim } = instruction.params;
        const dims = this.dims(index, shape);
        const chosen =
          instruction.op === 'gather'
            ? this.value(at, { linear: this.linear(index, shape) })
            : this.value(at, { linear: dims[dim] ?? '0u' });
        return this.value(x, { dims: dims.with(dim, this.let(`bitcast<u32>(${chosen})`)) });
      }
      default:
        throw new RangeError(`${instruction.op} is not computed element by element`);
    }
  }

  #gelu(instruction: Extract<Instruction, { op: 'gelu' | 'geluGrad' }>, index: Index): string {
    const [x = '', dy = ''] = instruction.inputs.map((id) => this.value(id, index));
    const kind = instruction.params.approximate === 'none' ? 'normal' : 'tanh';
    return instruction.op === 'gelu'
      ? `gelu_${kind}(${x})`
      : `opaque_of(${dy} * gelu_slope_${kind}(${x}))`;
  }

  #pad(instruction: Extract<Instruction, { op: 'pad' }>, index: Index): string {
    const { before, after, value } = instruction.params;
    const input = inputAt(instruction, 0);
    const sizes = this.#context.values.shape(input);
    const fill = literal(value, instruction.dtype);
    if (countOf(sizes) === 0) return fill;
    const inside: string[] = [];
    const dims = this.dims(index, instruction.shape).map((at, dim) => {
      if (before[dim] === 0 && after[dim] === 0) return at;
      // An index that lies before the value wraps around, so that it lies beyond the end of the value.
      const moved = this.let(`${at} - ${before[dim] ?? 0}u`);
      inside.push(`(${moved} < ${sizes[dim] ?? 0}u)`);
      return moved;
    });
    if (inside.length === 0) return this.value(input, { dims });
    return `select(${fill}, ${this.value(input, { dims })}, ${inside.join(' & ')})`;
  }

  #concat(instruction: Extract<Instruction, { op: 'concat' }>, index: Index): string {
    const { dim } = instruction.params;
    const at = this.dims(index, instruction.shape);
    let start = 0;
    let result: string | undefined;
    for (const input of instruction.inputs) {
      const size = this.#context.values.shape(input)[dim] ?? 0;
      if (size === 0) continue;
      const from = start;
      const moved = from === 0 ? (at[dim] ?? '0u') : this.let(`${at[dim] ?? '0u'} - ${from}u`);
      const element = this.value(input, { dims: at.with(dim, moved) });
      result =
        result === undefined
          ? element
          : this.let(`select(${result}, ${element}, ${at[dim] ?? '0u'} >= ${from}u)`);
      start += size;
    }
    return result ?? literal(0, instruction.dtype);
  }
}

function keyOf(id: number, index: Index): string {
  return `${id}@${'linear' in index ? index.linear : `[${index.dims.join()}]`}`;
}

/** The inputs of `where` in the order of `elementOf`: the two values, then the condition. */
function whereInputs([condition = '', a = '', b = '']: readonly string[]): string[] {
  return [a, b, condition];
}

import type { OnnxInitializer, OnnxNode, TensorType } from '@shardwise/backend-cpu/onnx';
import { tensorTypes } from '@shardwise/backend-cpu/onnx';
import type { SizeFormula } from '@shardwise/core/extend';
import type { SizeAxis } from './dynamic-axes.ts';

/** The type in which a formula is computed. */
type Arithmetic = 'i64' | 'f64';

/** Computes, in a model, the sizes that follow from those of its inputs. */
export class SizeNodes {
  readonly nodes: OnnxNode[] = [];
  readonly initializers: OnnxInitializer[] = [];
  readonly #axes: readonly SizeAxis[];
  readonly #inputNames: readonly string[];
  readonly #made = new Map<string, string>();
  #names = 0;

  constructor(axes: readonly SizeAxis[], inputNames: readonly string[]) {
    this.#axes = axes;
    this.#inputNames = inputNames;
  }

  /** The name of an axis, or a formula of such names. */
  describe({ powers, shifts, shiftPower = 1, constant, slopes }: SizeFormula): string {
    const factors = this.#axes.flatMap(({ name }, index) => {
      const power = powers?.[index] ?? 0;
      const shift = shifts?.[index] ?? null;
      return [
        ...(power === 0 ? [] : [power === 1 ? name : `${name}^${power}`]),
        ...(shift === null ? [] : [`(${name} + ${shift})^${shiftPower}`]),
      ];
    });
    const terms = this.#axes.flatMap(({ name }, index) => {
      const slope = slopes?.[index] ?? 0;
      if (slope === 0) return [];
      return slope === 1 ? [name] : [`${slope}*${name}`];
    });
    const sum = [...terms, ...(constant === 0 && terms.length > 0 ? [] : [String(constant)])];
    if (factors.length === 0) return sum.join(' + ');
    if (sum.length > 1) factors.push(`(${sum.join(' + ')})`);
    else if (sum[0] !== '1') factors.push(...sum);
    return factors.join('*');
  }

  /** Makes the list `name` of numbers and formulas. Shape: i64 [sizes.length]. */
  list(name: string, sizes: readonly (number | SizeFormula)[]): void {
    const parts = sizes.map((size) =>
      typeof size === 'number' ? this.#constant('i64', size) : this.#size(size),
    );
    this.#emit('Concat', parts, { axis: { int: 0 } }, { output: name });
  }

  /** Makes a scalar of a formula, and returns its name. */
  scalar(formula: SizeFormula, type: TensorType): string {
    const value = this.#cast(this.#formula(formula, 'f64'), type);
    return this.#emit('Squeeze', [value]);
  }

  /** Shape: i64 [1]. */
  #size(formula: SizeFormula): string {
    const { powers = [], shifts = [], constant, slopes = [] } = formula;
    const isWhole =
      powers.every((power) => power >= 0) &&
      [constant, ...slopes, ...shifts.map((shift) => shift ?? 0)].every(Number.isInteger);
    if (isWhole) return this.#formula(formula, 'i64');
    const rounded = this.#emit('Add', [this.#formula(formula, 'f64'), this.#constant('f64', 0.5)]);
    return this.#cast(this.#emit('Floor', [rounded]), 'i64');
  }

  /** Shape: [1]. */
  #formula(formula: SizeFormula, type: Arithmetic): string {
    const { powers, shifts, shiftPower = 1, constant, slopes } = formula;
    const factors: string[] = [];
    const divisors: string[] = [];
    const terms: string[] = [];
    for (const index of this.#axes.keys()) {
      const power = powers?.[index] ?? 0;
      const shift = shifts?.[index] ?? null;
      const slope = slopes?.[index] ?? 0;
      const size = (): string => this.#axis(index, type);
      for (let at = 0; at < Math.abs(power); at++) (power > 0 ? factors : divisors).push(size());
      if (shift !== null) {
        const shifted = this.#emit('Add', [size(), this.#constant(type, shift)]);
        for (let at = 0; at < shiftPower; at++) factors.push(shifted);
      }
      if (slope !== 0) {
        const isSize = slope === 1;
        terms.push(isSize ? size() : this.#emit('Mul', [size(), this.#constant(type, slope)]));
      }
    }
    const isOne = terms.length === 0 && constant === 1 && factors.length > 0;
    if (!isOne && (constant !== 0 || terms.length === 0))
      terms.push(this.#constant(type, constant));
    if (terms.length > 0) factors.push(this.#all('Add', terms));
    const product = this.#all('Mul', factors);
    return divisors.length === 0
      ? product
      : this.#emit('Div', [product, this.#all('Mul', divisors)]);
  }

  #all(op: string, [first = '', ...rest]: readonly string[]): string {
    return rest.reduce((sum, each) => this.#emit(op, [sum, each]), first);
  }

  #axis(index: number, type: Arithmetic): string {
    const [place = { input: 0, dim: 0 }] = this.#axes[index]?.places ?? [];
    const { input, dim } = place;
    const range = { start: { int: dim }, end: { int: dim + 1 } };
    const size = this.#limited(index, this.#emit('Shape', [this.#inputNames[input] ?? ''], range));
    return type === 'i64' ? size : this.#cast(size, type);
  }

  /**
   * The same size, which fails the run if it is above its limit. ONNX has no checks, so this adds the one element of a
   * table, whose index is then out of range.
   */
  #limited(index: number, size: string): string {
    const axis = this.#axes[index];
    if (axis?.isLimited !== true) return size;
    const { name, max } = axis;
    const isAbove = this.#emit('Greater', [size, this.#constant('i64', max)]);
    const table = this.#constant('i64', 0);
    const place = this.#cast(isAbove, 'i64');
    const nothing = this.#emit(
      'Gather',
      [table, place],
      { axis: { int: 0 } },
      {
        name: `${name} is at most ${max}`,
      },
    );
    return this.#emit('Add', [size, nothing]);
  }

  #cast(name: string, type: TensorType): string {
    return this.#emit('Cast', [name], { to: { int: tensorTypes[type] } });
  }

  /** Shape: [1]. */
  #constant(type: Arithmetic, value: number): string {
    const array = type === 'i64' ? BigInt64Array.of(BigInt(value)) : Float64Array.of(value);
    const known = this.#made.get(`${type} ${value}`);
    if (known !== undefined) return known;
    const name = this.#newName();
    this.initializers.push({ name, type, shape: [1], bytes: new Uint8Array(array.buffer) });
    this.#made.set(`${type} ${value}`, name);
    return name;
  }

  /** Adds a node, or returns the output of an equal one. */
  #emit(
    op: string,
    inputs: readonly string[],
    attributes: OnnxNode['attributes'] = {},
    { output, ...named }: { readonly output?: string; readonly name?: string } = {},
  ): string {
    const key = JSON.stringify([op, inputs, attributes]);
    const known = output === undefined ? this.#made.get(key) : undefined;
    if (known !== undefined) return known;
    const made = output ?? this.#newName();
    this.nodes.push({ ...named, op, domain: '', inputs, outputs: [made], attributes });
    if (output === undefined) this.#made.set(key, made);
    return made;
  }

  #newName(): string {
    return `/size${this.#names++}`;
  }
}

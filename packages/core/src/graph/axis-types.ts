import type { AxisType } from '../spec/op.ts';

/** The type of a value on one axis, as far as it is known. Numbers of the program are `uniform`: they fit any type. */
export type KnownAxisType = AxisType | 'uniform' | 'unset';

/** How a value lies on each axis of the mesh. Equal types are one object, so comparing and joining them is fast. */
export class AxisTypes {
  /** The types of the axes on which the value has one. */
  readonly byAxis: ReadonlyMap<string, AxisType>;
  /** The type on all other axes. */
  readonly elsewhere: 'uniform' | 'unset';
  /** All objects of this class, by their contents, which never change. */
  static readonly #interned = new Map<string, AxisTypes>();
  readonly #changed = new Map<string, Map<AxisType, AxisTypes>>();
  #mix: AxisMix | null = null;
  #mixOutsideGradient: AxisMix | null = null;

  private constructor(byAxis: ReadonlyMap<string, AxisType>, elsewhere: 'uniform' | 'unset') {
    this.byAxis = byAxis;
    this.elsewhere = elsewhere;
  }

  static of(byAxis: ReadonlyMap<string, AxisType>, elsewhere: 'uniform' | 'unset'): AxisTypes {
    const sorted = [...byAxis].toSorted(byName);
    const key = JSON.stringify([elsewhere, sorted]);
    const known = AxisTypes.#interned.get(key);
    if (known !== undefined) return known;
    const made = new AxisTypes(new Map(sorted), elsewhere);
    AxisTypes.#interned.set(key, made);
    return made;
  }

  on(axis: string): KnownAxisType {
    return this.byAxis.get(axis) ?? this.elsewhere;
  }

  /** The same types, but with `type` on one axis. */
  with(axis: string, type: AxisType): AxisTypes {
    const known = this.#changed.get(axis)?.get(type);
    if (known !== undefined) return known;
    const made = AxisTypes.of(new Map([...this.byAxis, [axis, type]]), this.elsewhere);
    const ofAxis = this.#changed.get(axis) ?? new Map<AxisType, AxisTypes>();
    this.#changed.set(axis, ofAxis.set(type, made));
    return made;
  }

  /** The same types, but without a type on one axis. */
  without(axis: string): AxisTypes {
    return AxisTypes.of(
      new Map([...this.byAxis].filter(([name]) => name !== axis)),
      this.elsewhere,
    );
  }

  /** These types as those of the only input of an op. `needsGradient`: whether a gradient comes back to the input. */
  mixed(needsGradient: boolean): AxisMix {
    if (needsGradient) return (this.#mix ??= AxisMix.of(this, true));
    return (this.#mixOutsideGradient ??= AxisMix.of(this, false));
  }
}

/** The types of values that are made only of numbers of the program. */
export const uniform: AxisTypes = AxisTypes.of(new Map(), 'uniform');

/** The types of values for which nothing was declared. */
export const unset: AxisTypes = AxisTypes.of(new Map(), 'unset');

/** The types that the inputs of an op have on one axis, as the bits of a set. A `uniform` input adds no bit. */
const bit = {
  unset: 1,
  replicate: 2,
  invariant: 4,
  /** Replicate and invariant inputs to which no gradient comes. Both then only mean: the same value on all ranks. */
  sameReplicate: 8,
  sameInvariant: 16,
  varying: 32,
  partial: 64,
} as const;

const outsideGradient: { readonly [T in AxisType]: number } = {
  replicate: bit.sameReplicate,
  invariant: bit.sameInvariant,
  varying: bit.varying,
  partial: bit.partial,
};

/**
 * The types of all inputs of an op, as one set for each axis. Equal mixes are one object, which remembers the mixes
 * that it was joined with. The types of a node therefore cost one look-up for each input.
 */
export class AxisMix {
  /** All objects of this class, by their sets, which never change. */
  static readonly #known = new Map<string, AxisMix>();
  readonly #byAxis: ReadonlyMap<string, number>;
  /** The set on all other axes. */
  readonly #elsewhere: number;
  readonly #joins = new Map<AxisMix, AxisMix>();
  #result: AxisTypes | null | undefined;
  #sum: AxisTypes | null = null;

  private constructor(byAxis: ReadonlyMap<string, number>, elsewhere: number) {
    this.#byAxis = byAxis;
    this.#elsewhere = elsewhere;
  }

  /** The mix of one input. */
  static of({ byAxis, elsewhere }: AxisTypes, needsGradient: boolean): AxisMix {
    const bits = needsGradient ? bit : outsideGradient;
    const sets = [...byAxis].map(([axis, type]) => [axis, bits[type]] as const);
    return AxisMix.#interned(new Map(sets), elsewhere === 'uniform' ? 0 : bit.unset);
  }

  static #interned(byAxis: ReadonlyMap<string, number>, elsewhere: number): AxisMix {
    const sorted = [...byAxis].toSorted(byName);
    const key = JSON.stringify([elsewhere, sorted]);
    const known = AxisMix.#known.get(key);
    if (known !== undefined) return known;
    const made = new AxisMix(new Map(sorted), elsewhere);
    AxisMix.#known.set(key, made);
    return made;
  }

  get axes(): Iterable<string> {
    return this.#byAxis.keys();
  }

  /** The mix of these inputs and those of `other`. */
  with(other: AxisMix): AxisMix {
    if (other === this) return this;
    const known = this.#joins.get(other);
    if (known !== undefined) return known;
    const axes = [...this.axes, ...other.axes];
    const byAxis = new Map(axes.map((axis) => [axis, this.#on(axis) | other.#on(axis)]));
    const made = AxisMix.#interned(byAxis, this.#elsewhere | other.#elsewhere);
    this.#joins.set(other, made);
    return made;
  }

  #on(axis: string): number {
    return this.#byAxis.get(axis) ?? this.#elsewhere;
  }

  /**
   * The types of the result of an op of these inputs. Null if they depend on the op, because an input is partial on
   * some axis, or if no op takes these inputs.
   */
  get result(): AxisTypes | null {
    if (this.#result === undefined) {
      const isPlain = [...this.#byAxis.values()].every(
        (set) => !has(set, bit.partial) && !isTorn(set),
      );
      this.#result = isPlain ? this.#each(joined) : null;
    }
    return this.#result;
  }

  /** The type of the result on one axis. Null if, on this axis, one of the reasons of `result` holds. */
  resultOn(axis: string): KnownAxisType | null {
    const set = this.#on(axis);
    return has(set, bit.partial) || isTorn(set) ? null : joined(set);
  }

  /** Whether some input is partial on the axis. */
  hasPartial(axis: string): boolean {
    return has(this.#on(axis), bit.partial);
  }

  /** The types of the sum of the inputs, if each is a term of one sum over the ranks, like the parts of a gradient. */
  get sum(): AxisTypes {
    return (this.#sum ??= this.#each((set) => (has(set, bit.partial) ? 'partial' : joined(set))));
  }

  #each(typeOf: (set: number) => KnownAxisType): AxisTypes {
    const types = new Map<string, AxisType>();
    for (const [axis, set] of this.#byAxis) {
      const type = typeOf(set);
      if (type !== 'unset' && type !== 'uniform') types.set(axis, type);
    }
    return AxisTypes.of(types, this.#elsewhere === 0 ? 'uniform' : 'unset');
  }
}

function byName([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number {
  return a < b ? -1 : 1;
}

function has(set: number, bits: number): boolean {
  return (set & bits) > 0;
}

/**
 * Whether one input must get the same gradient on all ranks (it is invariant), while another input of the same op makes
 * the gradient different on each rank.
 */
function isTorn(set: number): boolean {
  return has(set, bit.invariant) && has(set, bit.replicate | bit.varying);
}

/** The type of an op's result from the set of its inputs' types. None of them may be partial. */
function joined(set: number): KnownAxisType {
  if (set === 0) return 'uniform';
  if (has(set, bit.varying)) return 'varying';
  if (has(set, bit.unset)) return 'unset';
  if (has(set, bit.invariant) || set === bit.sameInvariant) return 'invariant';
  return 'replicate';
}

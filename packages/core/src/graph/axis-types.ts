import type { AxisType } from '../spec/op.ts';

/** What is known of a value on one axis; `uniform` of numbers of the program, which are whatever an op needs. */
export type KnownAxisType = AxisType | 'uniform' | 'unset';

/** How a value lies on each axis of the mesh. Equal ones are one object, so nodes compare and join them at once. */
export class AxisTypes {
  /** Of the axes on which it has a type. */
  readonly byAxis: ReadonlyMap<string, AxisType>;
  /** On all other axes. */
  readonly elsewhere: 'uniform' | 'unset';
  /** All that there are, by what they say: they never change. */
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

  /** The same, with another type on one axis. */
  with(axis: string, type: AxisType): AxisTypes {
    const known = this.#changed.get(axis)?.get(type);
    if (known !== undefined) return known;
    const made = AxisTypes.of(new Map([...this.byAxis, [axis, type]]), this.elsewhere);
    const ofAxis = this.#changed.get(axis) ?? new Map<AxisType, AxisTypes>();
    this.#changed.set(axis, ofAxis.set(type, made));
    return made;
  }

  /** The same, without a type on one axis. */
  without(axis: string): AxisTypes {
    return AxisTypes.of(
      new Map([...this.byAxis].filter(([name]) => name !== axis)),
      this.elsewhere,
    );
  }

  /** As an input of an op through which a gradient comes to it, or none does. */
  mixed(needsGradient: boolean): AxisMix {
    if (needsGradient) return (this.#mix ??= AxisMix.of(this, true));
    return (this.#mixOutsideGradient ??= AxisMix.of(this, false));
  }
}

/** Of values that are made of numbers of the program alone. */
export const uniform: AxisTypes = AxisTypes.of(new Map(), 'uniform');

/** Of values of which nobody has said anything. */
export const unset: AxisTypes = AxisTypes.of(new Map(), 'unset');

/** What inputs of an op are on one axis, as bits of a set; `uniform` ones add none. */
const bit = {
  unset: 1,
  replicate: 2,
  invariant: 4,
  /** Replicate and invariant, where no gradient comes to the value: then both are the same on all ranks, and no more. */
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
 * The types of all inputs of an op, as sets. Equal ones are one object that knows what it was joined with, so the
 * types of a node cost a look-up for each input.
 */
export class AxisMix {
  /** All that there are, by what they say: they never change, but for what they remember. */
  static readonly #known = new Map<string, AxisMix>();
  readonly #byAxis: ReadonlyMap<string, number>;
  /** On all other axes. */
  readonly #elsewhere: number;
  readonly #joins = new Map<AxisMix, AxisMix>();
  #result: AxisTypes | null | undefined;
  #sum: AxisTypes | null = null;

  private constructor(byAxis: ReadonlyMap<string, number>, elsewhere: number) {
    this.#byAxis = byAxis;
    this.#elsewhere = elsewhere;
  }

  /** Of one input. */
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

  /** With the inputs of `other`. */
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

  /** Of an op of such inputs; null where that depends on the op, as some input is partial, or where no op takes them. */
  get result(): AxisTypes | null {
    if (this.#result === undefined) {
      const isPlain = [...this.#byAxis.values()].every(
        (set) => !has(set, bit.partial) && !isTorn(set),
      );
      this.#result = isPlain ? this.#each(joined) : null;
    }
    return this.#result;
  }

  /** On one axis; null as of `result`. */
  resultOn(axis: string): KnownAxisType | null {
    const set = this.#on(axis);
    return has(set, bit.partial) || isTorn(set) ? null : joined(set);
  }

  /** Whether some input is partial on the axis. */
  hasPartial(axis: string): boolean {
    return has(this.#on(axis), bit.partial);
  }

  /** Of the sum of such values where each is a term of one sum over the ranks, as the parts of a gradient are. */
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

/** Whether one value is owed the same by all ranks, while each owes another gradient to what it meets. */
function isTorn(set: number): boolean {
  return has(set, bit.invariant) && has(set, bit.replicate | bit.varying);
}

/** Of an op whose inputs are these, none of them partial. */
function joined(set: number): KnownAxisType {
  if (set === 0) return 'uniform';
  if (has(set, bit.varying)) return 'varying';
  if (has(set, bit.unset)) return 'unset';
  if (has(set, bit.invariant) || set === bit.sameInvariant) return 'invariant';
  return 'replicate';
}

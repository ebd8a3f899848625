import { type Gradient, TensorStateError, type Update } from '@shardwise/core/extend';

/**
 * Which parameters a step may leave unused. `all`: it must use all of them. `any`: it may leave out any. `static`: it
 * must use those that the first step used.
 */
export type UnusedPolicy = 'all' | 'any' | 'static';

/** A parameter, and the functions that tell whether it trains and has a gradient. */
export interface UsedParameter {
  readonly name: string;
  /** The parameter itself. */
  readonly leaf: object;
  readonly isTrained: () => boolean;
  readonly gradient: Pick<Gradient, 'isEmpty'>;
}

/**
 * Tracks which parameters the backward passes of a step used, taken together. By default a step must use all that an
 * update changes. With `staticGraph` it must use those that the first step used.
 */
export class UsedParameters {
  readonly #parameters: readonly UsedParameter[];
  readonly #policy: UnusedPolicy;
  /**
   * The parameters for which this rank had a gradient since gradients were cleared, and those for which it sent zeros.
   */
  readonly #arrived = new Set<number>();
  readonly #sentAsZeros = new Set<number>();
  /** Whether the first step used a parameter, by its index. There is no entry before the first step. */
  readonly #expected = new Map<number, boolean>();
  #isOfOthers = false;

  constructor(parameters: readonly UsedParameter[], policy: UnusedPolicy) {
    this.#parameters = parameters;
    this.#policy = policy;
  }

  beginPass(): void {
    this.#isOfOthers = false;
    this.#parameters.forEach(({ gradient }, index) => {
      if (!gradient.isEmpty) return;
      this.#arrived.delete(index);
      this.#sentAsZeros.delete(index);
    });
  }

  /** Begins a step for which other ranks have a batch and this rank has none. */
  beginPassOfOthers(): void {
    this.#isOfOthers = true;
  }

  arrive(index: number): void {
    this.#arrived.add(index);
  }

  sendZeros(index: number): void {
    this.#sentAsZeros.add(index);
  }

  /** Throws TensorStateError if the step has not used a parameter of `update` that it should have used. */
  check(index: number, update: Update): void {
    if (this.#isOfOthers || this.#parameters[index]?.isTrained() !== true) return;
    if (this.#policy === 'all') this.#checkAll(index, update);
    if (this.#policy === 'static') this.#checkStatic(index, update);
  }

  #checkAll(index: number, { leaves }: Update): void {
    if (!this.#isMissing(index)) return;
    const updated = this.#parameters.flatMap(({ leaf, name }, at) =>
      leaves.has(leaf) ? [{ name, isMissing: this.#isMissing(at) }] : [],
    );
    const missing = updated.flatMap(({ name, isMissing }) => (isMissing ? [name] : []));
    throw new TensorStateError(
      {
        asked: 'to update parameters by the means of their gradients over ranks',
        found: `${missing.length} of ${updated.length} parameters got no gradient from any backward pass of this step: ${missing.join(', ')}`,
        todo: 'Use every parameter in a loss, freeze unused ones with requiresGrad_(false), or pass findUnusedParameters: true',
      },
      { missing },
    );
  }

  #isMissing(index: number): boolean {
    return this.#sentAsZeros.has(index) && !this.#arrived.has(index);
  }

  #checkStatic(index: number, { leaves }: Update): void {
    const uses = this.#arrived.has(index);
    if (!uses && !this.#sentAsZeros.has(index)) return;
    const expected = this.#expected.get(index) ?? uses;
    this.#expected.set(index, expected);
    if (uses === expected) return;
    const names = this.#parameters.flatMap(({ name, leaf }, at) => {
      const isSame = this.#expected.get(at) === expected && this.#arrived.has(at) === uses;
      return isSame && leaves.has(leaf) ? [name] : [];
    });
    throw new TensorStateError(
      {
        asked: 'that every step uses the parameters that the first one used (staticGraph)',
        found: `${names.join(', ')} ${uses ? 'got a gradient for the first time' : 'got no gradient this time'}`,
        todo: 'Use the same parameters in every step, or pass findUnusedParameters: true instead of staticGraph',
      },
      { parameters: names },
    );
  }
}

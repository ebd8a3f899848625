import {
  ConfigError,
  formatShape,
  fromData,
  functional,
  type Module,
  type Tensor,
} from '@shardwise/core/extend';
import type { LowRankFactor } from './low-rank-factor.ts';

/** The adapters of a model, and which one each token of the next forward passes has. */
export class AdapterStack {
  /** The names of the adapters. A token has the number of one of them, from 1 on, or 0 for the model without an adapter. */
  readonly names: readonly string[];
  /** The model whose layers have them. */
  readonly model: Module;
  #numbers: Tensor | null = null;

  constructor(model: Module, names: readonly string[]) {
    this.model = model;
    this.names = names;
  }

  /** The number of an adapter. Undefined if there is none of this name. */
  numberOf(name: string): number | undefined {
    const index = this.names.indexOf(name);
    return index < 0 ? undefined : index + 1;
  }

  /** The numbers of the adapters of the tokens. Null: no token has one. Shape: i32 [B, T]. */
  get selected(): Tensor | null {
    return this.#numbers;
  }

  /** Runs forward passes whose tokens have the adapters of these numbers. Shape: numbers i32 [B, T]. */
  withSelected<Result>(numbers: Tensor, forward: () => Result): Result {
    const before = this.#numbers;
    this.#numbers = numbers;
    try {
      return forward();
    } finally {
      this.#numbers = before;
    }
  }
}

/** The adapters of a layer, whose matrices lie behind each other: A [R, in] and B [out, R], where R is the sum of ranks. */
export class LayerStack {
  readonly #stack: AdapterStack;
  /** The number of the adapter that each of the R rows of A belongs to. */
  readonly #owners: Int32Array<ArrayBuffer>;
  /** The scaling of each number of an adapter, also of 0. */
  readonly #scalings: Float32Array<ArrayBuffer>;

  constructor(
    stack: AdapterStack,
    owners: Int32Array<ArrayBuffer>,
    scalings: Float32Array<ArrayBuffer>,
  ) {
    this.#stack = stack;
    this.#owners = owners;
    this.#scalings = scalings;
  }

  /**
   * What the adapters of the tokens add. All adapters multiply all tokens, and each token keeps the terms of its own one.
   * The others become zeros, which add nothing to its sums, so that it gets the bits that it gets from this adapter alone.
   * Null if no token has an adapter. Shape: x [B, T, in] -> [B, T, out].
   */
  update(x: Tensor, loraA: LowRankFactor, loraB: LowRankFactor): Tensor | null {
    const { selected } = this.#stack;
    if (selected === null) return null;
    const [batch = 0, tokens = 0] = x.shape;
    const [ownBatch, ownTokens] = selected.shape;
    if (batch !== ownBatch || tokens !== ownTokens || x.ndim !== 3) throw otherTokens(x, selected);
    const low = functional.linear(x.to(loraA.weight.dtype), loraA.weight);
    const owners = fromData(this.#owners, [1, 1, this.#owners.length], 'i32');
    const isOwn = selected.unsqueeze(2).eq(owners);
    const scalings = fromData(this.#scalings, [this.#scalings.length], 'f32')
      .indexSelect(0, selected.reshape([-1]))
      .reshape([batch, tokens, 1]);
    return functional.linear(isOwn.where(low, 0), loraB.weight).mul(scalings);
  }
}

function otherTokens(x: Tensor, selected: Tensor): ConfigError {
  return new ConfigError({
    asked: `adapters of tokens of shape ${formatShape(selected.shape)}`,
    found: `a layer with an adapter whose inputs have shape ${formatShape(x.shape)}`,
    todo: 'Give a model whose layers compute the same tokens',
  });
}

import type { ValueType } from '../spec/dtype.ts';
import type { CompositeOp, Op, OpParams } from '../spec/op.ts';
import type { Node } from './node.ts';
import type { DimsOf } from './op-dims.ts';

/** Facts about an op that do not depend on its parameters. */
export interface OpFacts {
  /**
   * Who carries the op out: the device, a process group or a store of pages. A `composite` runs on the device, whole or
   * decomposed. `graph`: nobody, because the op is only in the graph.
   */
  readonly by: 'device' | 'composite' | 'group' | 'store' | 'graph';
  /** Whether the op takes values of any dtype as they are, or only in the dtypes that a device computes with. */
  readonly dtypes: 'any' | 'computed';
  /**
   * The memory of the result on the device: its own, or that of the input. It is `none` for a value that is computed
   * where it is read, or that lies elsewhere.
   */
  readonly memory: 'own' | 'input' | 'none';
  /** Whether recomputing the op is expensive, as for products and for data from other ranks. */
  readonly isExpensive: boolean;
  /** Whether the op returns its input unchanged if the axis has one rank. */
  readonly isIdentityForOneRank: boolean;
  /** Whether the result may overwrite the input. */
  readonly worksInPlace: boolean;
  /**
   * The groups of inputs in which the op is linear. The inputs of one group may be partial sums together, if the other
   * inputs are the same on all ranks. The result is then a partial sum, too. `all` means one group of all inputs.
   */
  readonly linearIn: LinearIn;
  /**
   * The dtype in which the op takes floats inside autocast: `lower` is the dtype of the autocast, for products. `f32`
   * is for ops whose results would be too inexact in f16 and bf16. Other ops take their inputs as given.
   */
  readonly autocast: 'lower' | 'f32' | 'asGiven';
}

export type LinearIn = 'all' | readonly (readonly number[])[];

/**
 * Makes, from a node and the gradient of its output, the gradients of its inputs. Null for an input to which no
 * gradient flows. `output` is the node that the backward pass reads in the place of the node's value. The inputs of the
 * node follow.
 */
type GradientRule<K extends Op> = (
  node: Node<K>,
  gradient: Node,
  output: Node,
  ...inputs: Node[]
) => readonly (Node | null)[];

/** A rule that may also say, by null, that the gradient is that of the decomposition. */
type CompositeRule<K extends Op> = (
  ...call: Parameters<GradientRule<K>>
) => readonly (Node | null)[] | null;

/** All that the library knows about an op. Its parameters, and what it computes, are in spec/op.ts. */
interface OpEntry<K extends Op> extends OpFacts {
  /** The shape and dtype of the result. Throws ShapeError or DTypeError for inputs that the op does not take. */
  infer(params: OpParams[K], inputs: readonly ValueType[], op: K): ValueType;
  readonly gradient: CompositeRule<K> | 'throughDecomposition';
  /** How a layout goes through the op (op-dims.ts). */
  readonly dims: DimsOf<K>;
}

/** What a node is made by. */
export type NewNodeEntry<K extends Op> = Pick<OpEntry<K>, 'infer' | 'autocast' | 'linearIn'>;

/** An op that is not made of others. */
interface SimpleEntry<K extends Op> extends OpEntry<K> {
  readonly by: Exclude<OpFacts['by'], 'composite'>;
  readonly gradient: GradientRule<K>;
}

/** An op that is made of others. Second derivatives may go through the decomposition. */
interface CompositeEntry<K extends CompositeOp> extends OpEntry<K> {
  readonly by: 'composite';
  /** Builds the op from others, with `inputs` in the place of a node's own inputs. */
  readonly decompose: (params: OpParams[K], ...inputs: Node[]) => Node;
}

export type OpEntries<K extends Op> = { readonly [P in K]: OpEntry<P> };
export type SimpleEntries<K extends Op> = { readonly [P in K]: SimpleEntry<P> };
export type CompositeEntries<K extends CompositeOp> = { readonly [P in K]: CompositeEntry<P> };

/** Facts that many ops have in common. An entry adds its own, or replaces some. */
interface Preset<By extends OpFacts['by'], Dims extends string> extends OpFacts {
  readonly by: By;
  readonly dims: Dims;
}

const local = {
  isExpensive: false,
  isIdentityForOneRank: false,
  worksInPlace: false,
  linearIn: [],
  autocast: 'asGiven',
} as const;

/** An op that computes each element from those at the same place. */
export const pointwise: Preset<'device', 'elementwise'> = {
  ...local,
  by: 'device',
  dtypes: 'computed',
  memory: 'own',
  dims: 'elementwise',
};
export const linear: Preset<'device', 'elementwise'> = { ...pointwise, linearIn: 'all' };
/** An op that moves elements without changing them. */
export const movement: Preset<'device', 'own'> = { ...linear, dtypes: 'any', dims: 'own' };
/** An op that is linear in each of its two factors. */
export const product: Preset<'device', 'own'> = {
  ...pointwise,
  linearIn: [[0], [1]],
  isExpensive: true,
  autocast: 'lower',
  dims: 'own',
};
/** A composite that computes each element from those at the same place. */
export const composite: Preset<'composite', 'elementwise'> = { ...pointwise, by: 'composite' };
/** An op on rows. Its sums, exponentials and differences need more precision than its result. */
export const rowwise: Preset<'composite', 'rowwise'> = {
  ...composite,
  autocast: 'f32',
  dims: 'rowwise',
};
/** An op in which all ranks of an axis take part, and in which nothing travels. */
export const localCollective: Preset<'group', 'none'> = {
  ...local,
  by: 'group',
  dtypes: 'any',
  memory: 'own',
  linearIn: 'all',
  dims: 'none',
};
export const travelling: Preset<'group', 'none'> = {
  ...localCollective,
  isExpensive: true,
  isIdentityForOneRank: true,
};
export const transfer: Preset<'store', 'none'> = { ...localCollective, by: 'store' };
/** An op that no backend sees. */
export const ofGraph: Preset<'graph', 'none'> = {
  ...local,
  by: 'graph',
  dtypes: 'computed',
  memory: 'own',
  dims: 'none',
};

/** The rule of an op through which no gradient flows. */
export const noGradient = ({ inputs }: Node): readonly null[] => inputs.map(() => null);
